"""Views: made, filled, followed, resumed and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.documents.ground import documents_in, draft, put
from tests.until import until

from headwater.core.clock import SystemClock
from headwater.core.document_errors import BadFilter, DocumentNotFound, ViewModification
from headwater.core.errors import AlreadyExists, BadInput
from headwater.documents.change import ChangeRecord, decode_record
from headwater.documents.feed import DocumentFeeds
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.view import ViewDefinition, view_settings
from headwater.documents.views import MirroredViews

CHEAP = ViewDefinition(template_uri="shop/{*}", filter="price < 10")
ITEMS = ViewDefinition(template_uri="hats~/{*}", filter="price < 10")


@asynccontextmanager
async def views_in(folder: Path) -> AsyncIterator[tuple[OpenDocuments, MirroredViews]]:
    async with documents_in(folder, clock=SystemClock()) as documents:
        topic = await documents.create()
        feeds = DocumentFeeds(documents.log, topic, documents.partition_view, documents.clock)
        views = MirroredViews(documents, lambda: feeds)
        views.start()
        try:
            yield documents, views
        finally:
            await views.aclose()
            await feeds.aclose()


def shown(documents: OpenDocuments, uri: str = "cheap~") -> dict[str, Any]:
    """The items of a view."""
    with documents.view(uri) as view:
        return {row.item: msgspec.json.decode(row.body) for row in view.rows(uri, limit=10_000)}


def records(documents: OpenDocuments, uri: str = "cheap~") -> list[ChangeRecord]:
    """The records of changes of a view."""
    number = documents.partition_of(uri)
    read = documents.log.read("hyper-storage", number, 0, limit=100_000)
    decoded = [decode_record(record.value, "") for record in read if record.key == uri.encode()]
    return [record for record in decoded if record.changes]


def test_a_view_shows_what_was_there_and_then_what_comes(tmp_path: Path) -> None:
    async def check() -> None:
        async with views_in(tmp_path) as (documents, views):
            await put(documents, "shop/hat", {"price": 3})
            await put(documents, "shop/coat", {"price": 30})
            await put(documents, "shop/deep/er", {"price": 1})
            await put(documents, "shop/list", [1, 2])
            assert await views.put("cheap~", CHEAP)
            assert not await views.put("cheap~", CHEAP)
            await until(lambda: shown(documents) == {"hat": {"id": "hat", "price": 3}})
            await documents.write(draft("patch", "shop/coat", {"price": 4}))
            await documents.write(draft("delete", "shop/hat"))
            await until(lambda: shown(documents) == {"coat": {"id": "coat", "price": 4}})
            await put(documents, "shop/coat", {"price": 11})
            await until(lambda: shown(documents) == {})
            made = records(documents)
            assert [change.revision for record in made for change in record.changes] == [1, 2, 3, 4]
            assert all(record.source for record in made)
            assert [(uri, view) for uri, view, _ in await views.all()] == [("cheap~", CHEAP)]

    asyncio.run(check())


def test_a_view_of_items_and_the_end_of_their_collection(tmp_path: Path) -> None:
    async def check() -> None:
        async with views_in(tmp_path) as (documents, views):
            await put(documents, "hats~/a", {"price": 3})
            await put(documents, "hats~/b", {"price": 30})
            await views.put("cheap~", ITEMS)
            await until(lambda: list(shown(documents)) == ["a"])
            await documents.write(draft("delete", "hats~"))
            await until(lambda: not shown(documents))
            await put(documents, "hats~/c", {"price": 5})
            await until(lambda: list(shown(documents)) == ["c"])

    asyncio.run(check())


def test_only_its_source_writes_a_view(tmp_path: Path) -> None:
    async def check() -> None:
        async with views_in(tmp_path) as (documents, views):
            await put(documents, "shop/hat", {"price": 3})
            await views.put("cheap~", CHEAP)
            await until(lambda: shown(documents))
            for given in (
                draft("put", "cheap~/x", {}),
                draft("delete", "cheap~/hat"),
                draft("delete", "cheap~"),
                draft("post", "cheap~", {}),
            ):
                with pytest.raises(ViewModification):
                    await documents.write(given)
            await views.delete("cheap~")
            assert shown(documents) == {}
            await put(documents, "cheap~/x", {"n": 1})
            with pytest.raises(AlreadyExists):
                await views.put("cheap~", CHEAP)
            with pytest.raises(DocumentNotFound):
                await views.delete("cheap~")

    asyncio.run(check())


def test_what_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with views_in(tmp_path) as (_, views):
            for definition in (
                ViewDefinition(template_uri="shop/x"),
                ViewDefinition(template_uri="{*}/{*}"),
                ViewDefinition(template_uri="shop/a{*}"),
                ViewDefinition(template_uri="shop/{*}/b~"),
                ViewDefinition(template_uri="cheap~/{*}"),
            ):
                with pytest.raises(BadInput):
                    await views.put("cheap~", definition)
            with pytest.raises(BadFilter):
                await views.put("cheap~", ViewDefinition(template_uri="shop/{*}", filter="price <"))
            await views.put("cheap~", CHEAP)
            with pytest.raises(AlreadyExists):
                await views.put("cheap~", ITEMS)
            with pytest.raises(DocumentNotFound, match=r"Did you mean cheap~\?"):
                await views.definition("cheep~")

    asyncio.run(check())


@pytest.mark.parametrize("definition", [CHEAP, ITEMS])
@pytest.mark.parametrize("seed", range(3))
def test_a_view_goes_on_after_every_restart_without_gap_or_double(tmp_path: Path, seed: int, definition: ViewDefinition) -> None:
    """Each change of the source that changes the view is one change of the view, in every run."""
    random, model, expected = Random(seed), dict[str, Any](), list[tuple[str, Any]]()
    where = "shop/" if definition is CHEAP else "hats~/"

    async def run(number: int) -> None:
        async with views_in(tmp_path) as (documents, views):
            await views.put("cheap~", definition)
            await until(lambda: _filled(documents))
            for _ in range(random.randrange(30)):
                name = random.choice("abcd")
                if name in model and random.random() < 0.3:
                    await documents.write(draft("delete", f"{where}{name}"))
                    _expect(expected, model.pop(name), None, name)
                else:
                    body = {"price": random.randrange(20), "n": random.random()}
                    await put(documents, f"{where}{name}", body)
                    _expect(expected, model.get(name), body, name)
                    model[name] = body
            if number == 9 or random.random() < 0.3:  # in most runs the mirror ends somewhere
                await until(lambda: len(_changes(documents)) >= len(expected))

    async def check() -> None:
        for number in range(10):
            await run(number)
        async with documents_in(tmp_path) as documents:
            assert _by_item(_changes(documents)) == _by_item(expected)  # documents of two partitions have no common order
            assert {item: body["n"] for item, body in shown(documents).items()} == {
                name: body["n"] for name, body in model.items() if body["price"] < 10
            }

    asyncio.run(check())


def _expect(expected: list[tuple[str, Any]], before: Any, after: Any, name: str) -> None:
    was, now = before is not None and before["price"] < 10, after is not None and after["price"] < 10
    if was or now:
        expected.append((name, after["n"] if now else None))


def _changes(documents: OpenDocuments) -> list[tuple[str, Any]]:
    changes = [change for record in records(documents) for change in record.changes]
    assert [change.revision for change in changes] == list(range(1, len(changes) + 1))
    return [(change.item, msgspec.json.decode(change.state)["n"] if change.state else None) for change in changes]


def _filled(documents: OpenDocuments) -> bool:
    with documents.view("cheap~") as view:
        head = view.head("cheap~")
    return head is not None and view_settings(head.settings).position != ""


def _by_item(changes: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, value in changes:
        found.setdefault(name, []).append(value)
    return found
