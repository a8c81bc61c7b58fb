"""The mirror of one view."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.unit.documents.ground import draft, put
from tests.unit.documents.test_views import CHEAP, ITEMS, records, shown, views_in
from tests.unit.documents.waiting_filter import WaitingFilter
from tests.until import until

from headwater.core.errors import Unavailable
from headwater.documents import view_mirror
from headwater.documents import views as mirrored_views
from headwater.documents.view import FILLING, ViewDefinition, moved_view, view_settings
from headwater.documents.write import Draft


def test_a_view_whose_source_has_lost_its_history_is_filled_again(tmp_path: Path) -> None:
    """What the source no longer has leaves the view, and what has not changed is not written again."""

    async def check() -> None:
        async with views_in(tmp_path) as (documents, views):
            for name in "abc":
                await put(documents, f"hats~/{name}", {"price": 1})
            await views.put("cheap~", ITEMS)
            await until(lambda: list(shown(documents)) == ["a", "b", "c"])
            await until(lambda: "position" in _settings(documents))
            await views.aclose()
            await documents.write(draft("delete", "hats~/b"))
            await put(documents, "hats~/c", {"price": 2})
            await documents.change("cheap~", moved_view("cheap~", "999"))  # a revision that the source does not have
        async with views_in(tmp_path) as (documents, views):
            await views.put("cheap~", ITEMS)
            await until(lambda: list(shown(documents)) == ["a", "c"])
            made = [(change.method, change.item) for record in records(documents) for change in record.changes]
            assert made[:3] == [("put", "a"), ("put", "b"), ("put", "c")]
            assert sorted(made[3:]) == [("delete", "b"), ("put", "c")]
            assert {record.source for record in records(documents)} == {FILLING}

    asyncio.run(check())


def test_the_loop_runs_while_the_filter_of_a_view_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_mirror, "compile_filter", WaitingFilter.compiled)

    async def check() -> None:
        async with views_in(tmp_path) as (documents, views):
            await put(documents, "shop/cheap", {"price": 1})
            WaitingFilter.begin()
            await views.put("cheap~", CHEAP)
            await until(WaitingFilter.began.is_set)
            WaitingFilter.turn.set()
            await until(lambda: list(shown(documents)) == ["cheap"])

    asyncio.run(check())


def test_a_position_is_noted_though_nothing_is_mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_mirror, "_UNNOTED", 2)

    async def check() -> None:
        async with views_in(tmp_path) as (documents, views):
            await views.put("cheap~", CHEAP)
            await until(lambda: "position" in _settings(documents))
            before = _settings(documents)
            for number in range(20):
                await put(documents, "shop/dear", {"price": 100 + number})
            await until(lambda: _settings(documents) != before)
            assert shown(documents) == {}

    asyncio.run(check())


def test_large_portions_become_several_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_mirror, "_RECORD_BYTES", 3000)

    async def check() -> None:
        async with views_in(tmp_path) as (documents, views):
            for number in range(30):
                await put(documents, f"shop/{number}", {"price": 1, "filler": "x" * 500})
            await views.put("cheap~", CHEAP)
            await until(lambda: len(shown(documents)) == 30)
            sizes = [len(record.changes) for record in records(documents)]
            assert sum(sizes) == 30
            assert max(sizes) <= 6

    asyncio.run(check())


def test_what_a_portion_had_before_it_failed_is_not_mirrored_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The item changes twice: a mirror that began the portion anew would show its first state once more."""
    monkeypatch.setattr(view_mirror, "_RECORD_BYTES", 600)
    monkeypatch.setattr(mirrored_views, "_AGAIN", 0.01)
    append, calls = view_mirror.ViewMirror._append, list[str]()

    async def fails_once(mirror: view_mirror.ViewMirror, drafts: Sequence[Draft], source: str) -> None:
        calls.append(source)
        if len(calls) == 4:
            raise Unavailable("The disk is full.", hint="Free some space.")
        await append(mirror, drafts, source)

    async def check(definition: ViewDefinition, folder: str) -> None:
        async with views_in(tmp_path / folder) as (documents, mirrored):
            await put(documents, folder + "/a", {"price": 0})
            await mirrored.put("cheap~", definition)
            await until(lambda: list(shown(documents)) == ["a"])
            await until(lambda: "position" in _settings(documents))
            await mirrored.aclose()
            for price, item in enumerate("aaabc", 1):
                await put(documents, f"{folder}/{item}", {"price": price, "filler": "x" * 500})
        calls.clear()
        monkeypatch.setattr(view_mirror.ViewMirror, "_append", fails_once)
        async with views_in(tmp_path / folder) as (documents, mirrored):
            await documents.activate(documents.partition_of("cheap~"))
            await until(lambda: list(shown(documents)) == ["a", "b", "c"])
            made = [msgspec.json.decode(change.event)["price"] for record in records(documents) for change in record.changes]
            assert made == [0, 1, 2, 3, 4, 5]
            assert len(calls) == 6
        monkeypatch.setattr(view_mirror.ViewMirror, "_append", append)

    asyncio.run(check(ITEMS, "hats~"))
    asyncio.run(check(CHEAP, "shop"))


def _settings(documents: object) -> str:
    from headwater.documents.open_documents import OpenDocuments

    assert isinstance(documents, OpenDocuments)
    with documents.view("cheap~") as view:
        head = view.head("cheap~")
    settings = view_settings(head.settings) if head is not None else None
    return f"position {settings.position}" if settings is not None and settings.position else ""
