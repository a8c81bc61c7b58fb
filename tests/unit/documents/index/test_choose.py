"""Which source serves a query."""

from __future__ import annotations

import pytest

from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.filter.parser import parse_filter
from headwater.documents.index.choose import QueryShape, choose, query_shape
from headwater.documents.index.order import parse_order


def index(number: int, *fields: str, filter_by: str = "") -> IndexDefinition:
    sort_by = tuple(SortField(field.lstrip("-"), "desc" if field.startswith("-") else "asc") for field in fields)
    return IndexDefinition(id=f"i{number}", number=number, sort_by=sort_by, filter_by=filter_by, state="ready")


def shape(query: str, sort: str = "") -> QueryShape:
    return query_shape(parse_filter(query) if query else None, parse_order(sort))


INDEXES = [
    index(1, "a"),
    index(2, "-a"),
    index(3, "a", "b"),
    index(4, "a", filter_by="a > 5"),
    index(5, "a", filter_by="a > 10"),
    index(6, filter_by="status = 'x'"),
    index(7, "status", "a"),
]


@pytest.mark.parametrize(
    ("query", "sort", "chosen"),
    [
        ("", "", ""),
        ("", "id", ""),
        ("id > 'a'", "-id", ""),
        ("", "a", "i1"),
        ("", "-a", "i2"),
        ("", "a,b", "i3"),
        ("", "a,b,c", "i1"),
        ("a > 10", "a", "i5"),
        ("a > 11", "a", "i4"),
        ("a > 6", "a", "i4"),
        ("a = 20", "b", "i3"),
        ("status = 'x'", "", "i6"),
        ("status = 'x'", "a", "i7"),
        ("status = 'y'", "a", "i7"),
        ("status = 'y'", "-a", "i7"),
        ("c > 3", "", ""),
        ("id = 'k'", "a", ""),
    ],
)
def test_the_source_that_fits_best_is_chosen(query: str, sort: str, chosen: str) -> None:
    assert choose(shape(query, sort), INDEXES).fits[0].name == chosen


def test_an_index_with_the_same_filter_and_order_goes_before_all() -> None:
    exact = index(9, "b", filter_by="a = 1 and c = 2")
    better = index(8, "a", "c", "b")
    assert choose(shape("a = 1 and c = 2", "b"), [better, exact]).fits[0].name == "i9"


def test_how_much_of_an_order_is_served() -> None:
    [fit] = [fit for fit in choose(shape("", "a,-b"), [index(1, "a", "b")]).fits if fit.index]
    assert (fit.served, fit.ordered, fit.reverse) == (1, False, False)
    [fit] = [fit for fit in choose(shape("", "-a,-b,-id"), [index(1, "a", "b", "id")]).fits if fit.index]
    assert (fit.served, fit.ordered, fit.reverse) == (3, True, True)
    [fit] = [fit for fit in choose(shape("a = 1", "b"), [index(1, "b", "a")]).fits if fit.index]
    assert (fit.served, fit.ordered, fit.pinned) == (2, True, 0)


def test_what_is_not_ready_or_not_implied_is_unfit() -> None:
    young = IndexDefinition(id="young", number=3)
    choice = choose(shape("a > 3"), [index(1, "a", filter_by="a > 5"), young])
    assert set(choice.unfit) == {"i1", "young"}
    assert [fit.name for fit in choice.fits] == [""]
