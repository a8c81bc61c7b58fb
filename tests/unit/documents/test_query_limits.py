"""Limits of queries: what is refused, with numbers and with the index that would help."""

from __future__ import annotations

import json as plain_json
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.documents.memory_view import MemoryView
from tests.unit.documents.query_ground import ask, ids, index, numbered, random_collection
from tests.unit.documents.query_oracle import answer

from headwater.core.document_errors import BadFilter, QueryCountLimited, QueryTimeout, SkippedRowsLimited
from headwater.core.errors import BadInput, TooLarge
from headwater.documents import query_page
from headwater.documents.change import IndexDefinition
from headwater.documents.query import CollectionQuery, run_query
from headwater.documents.query_budget import QueryLimits
from headwater.documents.store import DocumentRow
from headwater.testing.clock import ManualClock
from headwater.testing.filter_samples import random_filter, random_order


def advised(error: SkippedRowsLimited | QueryCountLimited | QueryTimeout) -> Any:
    return plain_json.loads(error.hint[error.hint.index("{") : error.hint.rindex("}") + 1])


def test_a_query_that_passes_over_too_many_rows_names_the_index_that_helps() -> None:
    view = MemoryView(numbered(300))
    with pytest.raises(SkippedRowsLimited, match="passes over more than 100 rows") as caught:
        ask(view, filter="a = 99 and b > 5", sort="-b", skip_max=100, size=5)
    body = advised(caught.value)
    assert body == {"sortBy": [{"fieldName": "a", "fieldType": "decimal"}, {"fieldName": "b", "order": "desc", "fieldType": "decimal"}]}
    helped = index(1, "a", "-b")
    page = ask(MemoryView(numbered(300), [helped]), filter="a = 99 and b > 5", sort="-b", skip_max=0, size=5)
    assert ids(page) == ["00299", "00199", "00099"]
    assert page.explanation.helpful_index is None


def test_the_index_of_the_hint_serves_the_query_without_a_row_too_much() -> None:
    generator = random.Random(5)
    helped = 0
    for _ in range(150):
        bodies, query, sort = random_collection(generator), random_filter(generator), random_order(generator)
        expected = answer(bodies, query, sort)
        advice = ask(MemoryView(bodies), filter=query, sort=sort).explanation.helpful_index
        if advice is None or len(expected) < 2:
            continue
        made = IndexDefinition(id="i", number=1, sort_by=advice.sort_by, filter_by=advice.filter_by or "", state="ready")
        page = ask(MemoryView(bodies, [made]), filter=query, sort=sort)
        assert ids(page) == expected
        helped += page.explanation.index == "i"
    assert helped > 20


def test_exactly_the_rows_that_may_be_passed_over_are() -> None:
    view = MemoryView(numbered(100))
    assert len(ask(view, filter="b = 99", skip_max=99, size=1).rows) == 1
    with pytest.raises(SkippedRowsLimited):
        ask(view, filter="b = 99", skip_max=98, size=1)
    assert len(ask(view, sort="-b", skip_max=90, size=10).rows) == 10
    with pytest.raises(SkippedRowsLimited):
        ask(view, sort="-b", skip_max=88, size=10)
    assert len(ask(view, skip_max=0, size=100).rows) == 100


def test_a_full_page_is_returned_though_nothing_more_may_be_passed_over() -> None:
    page = ask(MemoryView(numbered(3000)), filter="a < 50", skip_max=0, size=50)
    assert len(page.rows) == 50
    assert page.cursor


def test_too_many_reads_are_refused() -> None:
    view = MemoryView(numbered(500))
    with pytest.raises(QueryCountLimited, match="more than 1 reads"):
        ask(view, QueryLimits(max_reads=1), filter="b = 499", size=1)


def test_a_count_passes_over_any_number_of_rows() -> None:
    """The page keeps its limit where the query says one, and where there is no filter: then nobody reads the rows."""
    view = MemoryView(numbered(3000))
    limits = QueryLimits(skip_max=10, max_reads=3)
    assert (ask(view, limits, count=True, size=1).total, view.reads) == (3000, 1)
    rare = ask(view, limits, filter="b = 2999", count=True, size=1, sort="-b")
    assert (rare.total, ids(rare)) == (1, ["02999"])
    assert (rare.explanation.skip_max, rare.explanation.skip_left, rare.explanation.rows_read) == (None, None, 3000)
    page = ask(view, limits, filter="a < 50", count=True, size=1, skip_max=0)
    assert (page.total, page.explanation.skip_max, page.explanation.rows_read, page.explanation.reads) == (1500, 0, 2, 1)
    following = ask(view, limits, filter="a < 50", count=True, size=1, cursor=page.cursor)
    assert (following.total, ids(following)) == (1500, ["00001"])
    with pytest.raises(SkippedRowsLimited):
        ask(view, limits, filter="b = 2999", count=True, size=1, skip_max=10)
    with pytest.raises(SkippedRowsLimited):
        ask(view, limits, sort="-b", count=True, size=1)


def test_a_count_ends_at_its_deadline() -> None:
    clock = ManualClock()

    class SlowView(MemoryView):
        def rows(self, *given: Any, **named: Any) -> Any:
            clock.advance(6)
            return super().rows(*given, **named)

        def count(self, uri: str, check: Callable[[], None] = lambda: None) -> int:
            clock.advance(16)
            check()
            return 0

    for filter_by in ("b >= 0", ""):
        query = CollectionQuery(filter=filter_by, size=1, count=True)
        with pytest.raises(QueryTimeout, match="longer than 15 s"):
            run_query(SlowView(numbered(5000)), "c~", query, clock=clock, limits=QueryLimits())


def test_a_query_ends_at_its_deadline() -> None:
    clock = ManualClock()

    class SlowView(MemoryView):
        def rows(self, *given: Any, **named: Any) -> Any:
            clock.advance(10)
            return super().rows(*given, **named)

    with pytest.raises(QueryTimeout, match="longer than 15 s"):
        run_query(SlowView(numbered(500)), "c~", CollectionQuery(filter="b = 499", size=1), clock=clock, limits=QueryLimits())


def test_a_hostile_pattern_does_not_hold_a_query() -> None:
    bodies = {name: {"id": name, "text": "a" * 3000} for name in "abc"}
    page = ask(MemoryView(bodies), filter=r"text like '^(a+)+(a|aa)+(.*a){10}$x'")
    assert ids(page) == []


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": -1}, {"size": 10_001}, {"skip_max": -1}])
def test_sizes_have_bounds(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInput):
        ask(MemoryView({}), **wrong)


@pytest.mark.parametrize("wrong", [{"filter": "a >"}, {"sort": "a b"}, {"sort": ",a"}])
def test_what_cannot_be_read_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(BadFilter):
        ask(MemoryView({}), **wrong)


def test_an_empty_collection_has_one_empty_page() -> None:
    page = ask(MemoryView({}), filter="a = 1", sort="b", count=True)
    assert (page.rows, page.cursor, page.total) == ([], "", 0)


def test_a_filter_that_nothing_fulfils_reads_nothing() -> None:
    page = ask(MemoryView(numbered(100)), filter="a < null")
    assert (page.rows, page.explanation.reads) == ([], 0)


def test_the_row_of_an_older_body_is_passed_over() -> None:
    view = MemoryView(numbered(20), [index(1, "a")])
    changed = MemoryView({**numbered(20), "00003": {"id": "00003", "a": 50}}, [])
    view.items["00003"] = changed.items["00003"]
    page = ask(view, sort="a", size=50)
    assert page.explanation.index == "i1"
    assert "00003" not in ids(page)
    assert len(page.rows) == 19


@pytest.mark.parametrize("sort", ["", "-b", "a"])
def test_a_page_of_too_many_bytes_is_refused_whole(monkeypatch: pytest.MonkeyPatch, sort: str) -> None:
    """A page that is not full is the last one: a shorter one would hide the rest from those who page by hand."""
    view = MemoryView(numbered(300))
    size = sum(len(row.body) for row in view.items.values())
    monkeypatch.setattr(query_page, "PAGE_BYTES", size)
    assert len(ask(view, sort=sort, size=300).rows) == 300
    monkeypatch.setattr(query_page, "PAGE_BYTES", size - 1)
    with pytest.raises(TooLarge, match="A page of 300 items"):
        ask(view, sort=sort, size=300)
    assert len(ask(view, sort=sort, size=100).rows) == 100, "fewer are fewer bytes, also where all must be sorted"


def test_few_rows_are_read_before_their_size_is_known() -> None:
    limits: list[int] = []

    class Watched(MemoryView):
        def rows(self, uri: str, *, low: str = "", high: str | None = None, limit: int, reverse: bool = False) -> list[DocumentRow]:
            limits.append(limit)
            return super().rows(uri, low=low, high=high, limit=limit, reverse=reverse)

    assert len(ask(Watched(numbered(3000)), size=3000).rows) == 3000
    assert limits[0] == 128
    assert len(limits) <= 4
    limits.clear()
    assert len(ask(Watched({f"{number:03}": {"x": "y" * 500_000} for number in range(200)}), size=40).rows) == 40
    with pytest.raises(TooLarge):
        ask(Watched({f"{number:03}": {"x": "y" * 500_000} for number in range(200)}), size=200)
    assert limits[1] == 128
    assert max(limits[2:]) <= 34
