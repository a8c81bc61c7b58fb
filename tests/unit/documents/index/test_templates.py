"""Collections get the indexes of their templates: when they begin, when a template comes, and when a new owner finds that they lack one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.documents.ground import documents_in, draft, put

from headwater.core.errors import Unavailable
from headwater.documents.calls import new_index
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.template import IndexTemplate, new_template, no_template
from headwater.documents.index.templates import TemplateIndexes
from headwater.documents.open_documents import OpenDocuments

pytestmark = pytest.mark.anyio
BY_PRICE = IndexTemplate(id="by-price", template_uri="shop/*~", sort_by=(SortField("price"),))


@asynccontextmanager
async def templates_in(folder: Path, fail: list[str] | None = None) -> AsyncIterator[tuple[OpenDocuments, TemplateIndexes]]:
    """`fail`: collections whose next index is not made."""
    async with documents_in(folder) as documents:

        async def make(uri: str, index: IndexDefinition) -> None:
            if fail and uri in fail:
                fail.remove(uri)
                raise Unavailable("Not now.", hint="Later.")
            await documents.change(uri, new_index(uri, index))

        templates = TemplateIndexes(documents, make)
        templates.start()
        yield documents, templates
        await templates.aclose()


def indexes(documents: OpenDocuments, uri: str) -> list[tuple[str, str]]:
    with documents.view(uri) as view:
        return [(index.id, index.state) for index in view.indexes(uri)]


async def test_collections_get_their_indexes_when_a_template_comes_and_when_they_begin(tmp_path: Path) -> None:
    async with templates_in(tmp_path) as (documents, templates):
        await put(documents, "shop/old~/1", {})
        await put(documents, "other~/1", {})
        call = new_template(BY_PRICE)
        assert await documents.change(call.uri, call) is not None
        await templates.look_everywhere()
        assert indexes(documents, "shop/old~") == [("by-price", "building")]
        await put(documents, "shop/new~/1", {})
        await put(documents, "shop/new~/2", {})
        await templates.aclose()
        assert indexes(documents, "shop/new~") == [("by-price", "building")]
        assert indexes(documents, "other~") == []
        assert list(await templates.templates()) == ["by-price"]


async def test_a_collection_that_begins_anew_gets_its_index_anew(tmp_path: Path) -> None:
    async with templates_in(tmp_path) as (documents, templates):
        call = new_template(BY_PRICE)
        await documents.change(call.uri, call)
        await put(documents, "shop/a~/1", {})
        await templates.look_everywhere()
        await documents.write(draft("delete", "shop/a~"))
        await put(documents, "shop/a~/1", {})
        await templates.aclose()
        assert indexes(documents, "shop/a~") == [("by-price", "deleting"), ("by-price", "building")]


async def test_an_index_of_ones_own_stays_and_a_template_that_goes_leaves_its_indexes(tmp_path: Path) -> None:
    async with templates_in(tmp_path) as (documents, templates):
        await put(documents, "shop/a~/1", {})
        await documents.change("shop/a~", new_index("shop/a~", IndexDefinition(id="by-price", number=0)))
        for call in (new_template(BY_PRICE), no_template("by-price")):
            await documents.change(call.uri, call)
            await templates.look_everywhere()
        await put(documents, "shop/b~/1", {})
        await templates.aclose()
        assert indexes(documents, "shop/a~") == [("by-price", "building")]
        assert indexes(documents, "shop/b~") == []


async def test_what_failed_and_what_a_dead_owner_left_is_done_later(tmp_path: Path) -> None:
    async with templates_in(tmp_path, fail=["shop/a~"]) as (documents, templates):
        call = new_template(BY_PRICE)
        await documents.change(call.uri, call)
        await put(documents, "shop/a~/1", {})
        await templates.aclose()
        assert indexes(documents, "shop/a~") == []
    async with templates_in(tmp_path) as (documents, templates):
        for number in range(documents.partitions):
            await documents.activate(number)
        await templates.aclose()
        assert indexes(documents, "shop/a~") == [("by-price", "building")]
