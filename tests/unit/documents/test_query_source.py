"""Sources: batches grow, and both directions give every row once."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.documents.memory_view import MemoryView

from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.choose import choose, query_shape
from headwater.documents.index.keys import index_keys
from headwater.documents.index.order import parse_order
from headwater.documents.plan import make_plan
from headwater.documents.query_budget import QueryBudget, QueryLimits
from headwater.documents.query_source import QuerySource
from headwater.testing.clock import ManualClock


@pytest.mark.parametrize("sort", ["", "-id", "a", "-a,-id"])
def test_every_row_comes_once_in_few_reads(sort: str) -> None:
    index = IndexDefinition(id="i", number=1, sort_by=(SortField("a"),), state="ready")
    view = MemoryView({f"{number:04d}": {"id": f"{number:04d}", "a": number} for number in range(1000)}, [index])
    shape = query_shape(None, parse_order(sort))
    budget = QueryBudget(QueryLimits(), ManualClock(), uri="c~", skip_max=10_000)
    source = QuerySource(view, make_plan(shape, choose(shape, [index]).fits[0]), budget, first=10)
    rows = [examined.row.item for examined in source.rows()]
    assert rows == sorted(view.items, reverse=sort.startswith("-"))
    assert source.exhausted
    assert source.waiting == 0
    assert budget.reads == view.reads <= 10


@pytest.mark.parametrize("whole", [True, False], ids=["copies", "rows of before copies were kept"])
def test_a_materialized_index_is_read_alone(whole: bool) -> None:
    index = IndexDefinition(id="i", number=1, sort_by=(SortField("a"),), state="ready", materialize=True)
    bodies = {f"{number:04d}": {"id": f"{number:04d}", "a": -number} for number in range(20)}
    view = MemoryView(bodies, [index if whole else msgspec.structs.replace(index, materialize=False)])
    shape = query_shape(None, parse_order("a"))
    budget = QueryBudget(QueryLimits(), ManualClock(), uri="c~", skip_max=10_000)
    source = QuerySource(view, make_plan(shape, choose(shape, [index]).fits[0]), budget, first=50)
    rows = [(examined.row.item, examined.body) for examined in source.rows()]
    assert rows == sorted(bodies.items(), reverse=True)
    assert (source.copied, budget.reads, view.reads) == ((True, 1, 1) if whole else (False, 2, 2))


def test_an_item_that_stands_twice_in_a_materialized_index_comes_once() -> None:
    """A store whose answers are not of one moment may hold the rows of an older and a newer body."""
    index = IndexDefinition(id="i", number=1, sort_by=(SortField("a"),), state="ready", materialize=True)
    view = MemoryView({"x": {"id": "x", "a": 1}, "y": {"id": "y", "a": 2}}, [index])
    view.add_index_row(1, index_keys(index).key("x", {"a": 3}) or b"", "x", b'{"id":"x","a":3}')
    shape = query_shape(None, parse_order("a"))
    budget = QueryBudget(QueryLimits(), ManualClock(), uri="c~", skip_max=10_000)
    source = QuerySource(view, make_plan(shape, choose(shape, [index]).fits[0]), budget, first=2)
    assert [(examined.row.item, examined.row.body) for examined in source.rows()] == [
        ("x", b'{"id":"x","a":1}'),
        ("y", b'{"id":"y","a":2}'),
    ]


def test_large_bodies_come_in_small_batches() -> None:
    view = MemoryView({f"{number:04d}": {"id": f"{number:04d}", "t": "x" * (1 << 20)} for number in range(40)})
    shape = query_shape(None, ())
    budget = QueryBudget(QueryLimits(max_reads=100), ManualClock(), uri="c~", skip_max=10_000)
    source = QuerySource(view, make_plan(shape, choose(shape, []).fits[0]), budget, first=8)
    most = 0
    for _ in source.rows():
        most = max(most, source.waiting + 1)
    assert most <= 16


def test_fewer_rows_are_read_where_fewer_may_be_passed_over() -> None:
    view = MemoryView({f"{number:04d}": {"id": f"{number:04d}"} for number in range(1000)})
    shape = query_shape(None, ())
    budget = QueryBudget(QueryLimits(), ManualClock(), uri="c~", skip_max=20)
    source = QuerySource(view, make_plan(shape, choose(shape, []).fits[0]), budget, first=10)
    rows = source.rows()
    for _ in range(11):
        next(rows)
        budget.examined += 1
    assert source.waiting < 25
