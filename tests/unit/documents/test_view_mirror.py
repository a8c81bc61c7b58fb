"""The mirror of one view."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.documents.ground import draft, put
from tests.unit.documents.test_views import CHEAP, ITEMS, records, shown, views_in
from tests.until import until

from headwater.documents import view_mirror
from headwater.documents.view import FILLING, moved_view, view_settings


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


def _settings(documents: object) -> str:
    from headwater.documents.open_documents import OpenDocuments

    assert isinstance(documents, OpenDocuments)
    with documents.view("cheap~") as view:
        head = view.head("cheap~")
    settings = view_settings(head.settings) if head is not None else None
    return f"position {settings.position}" if settings is not None and settings.position else ""
