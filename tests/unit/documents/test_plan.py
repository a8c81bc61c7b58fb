"""Plans: the bounds of what is read."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.filter.parser import parse_filter
from headwater.documents.index.choose import choose, query_shape
from headwater.documents.index.keys import index_keys
from headwater.documents.index.order import parse_order
from headwater.documents.plan import QueryPlan, id_bounds, make_plan, split_key


def plan(query: str, sort: str = "", *fields: str, after: bytes = b"") -> QueryPlan:
    shape = query_shape(parse_filter(query) if query else None, parse_order(sort))
    index = IndexDefinition(id="i", number=1, sort_by=order(*fields), state="ready")
    fit = next(fit for fit in choose(shape, [index] if fields else []).fits if bool(fit.index) == bool(fields))
    return make_plan(shape, fit, after)


def order(*fields: str) -> tuple[SortField, ...]:
    return tuple(SortField(field.lstrip("-"), "desc" if field.startswith("-") else "asc") for field in fields)


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        ("", "", None),
        ('id > "abc"', "abc\0", None),
        ('id >= "abc" and id < "b"', "abc", "b"),
        ('id <= "b" and a = 1', "", "b\0"),
        ('id = "k"', "k", "k\0"),
        ('"abc" < id', "abc\0", None),
        ("a = 1 or id = 'x'", "", None),
        (f"id <= '{'x' * 400}'", "", "x" * 400 + "\0"),
        (f"id > '{'x' * 400}' and id < '{'y' * 600}'", "x" * 400 + "\0", "y" * 600),
    ],
)
def test_ranges_of_ids_are_read_alone(query: str, low: str, high: str | None) -> None:
    [bounds] = plan(query).ranges
    assert id_bounds(bounds) == (low, high)


@pytest.mark.parametrize("query", ["id > 5", "a < null", "a = 1 and a = 2", "id < ''"])
def test_what_nothing_fulfils_is_not_read(query: str) -> None:
    assert plan(query).ranges == ()


@pytest.mark.parametrize(
    ("query", "fields", "inside", "outside"),
    [
        ("a > 5", ("a",), [6, 5.1, 10**30], [5, 4, None, "x", True]),
        ("a > 5", ("-a",), [6, 5.1, 10**30], [5, 4, None, "x", True]),
        ("a >= 5 and a <= 7", ("-a",), [5, 6, 7], [4, 8, "6", None]),
        ("a < 'k'", ("a",), ["", "a", "j~"], ["k", "l", 5, None]),
        ("a < 'k'", ("-a",), ["", "a", "j~"], ["k", "l", 5, None]),
        ("a = 5", ("a",), [5, 5.0], [4, 6, "5"]),
        ("a is null", ("-a",), [None], [0, "x"]),
        ("a is not null", ("a",), [0, "x", True, [], {}], [None]),
        ("b = 1 and a > 5", ("b", "a"), [6], [5, "x"]),
        ("a = 3 or a = 7 or a > 'k'", ("a",), [3, 7, "l"], [5, 8, "a", None, True]),
        ("a = 3 or a = 7 or a > 'k'", ("-a",), [3, 7, "l"], [5, 8, "a", None, True]),
        ("a != 3 and a != 7", ("a",), [5, None, "x", [], {}, True], [3, 7]),
        ("a != {} and a != [1]", ("a",), [5, None, "x", [], {}, [1], True], []),
        ("b = 1 and a > 5", ("-b", "-a"), [6], [5, "x"]),
    ],
)
def test_bounds_hold_what_the_filter_may_accept(query: str, fields: tuple[str, ...], inside: list[object], outside: list[object]) -> None:
    made = plan(query, "", *fields)
    keys = index_keys(IndexDefinition(id="i", number=1, sort_by=order(*fields)))
    for value in [*inside, *outside]:
        for item in ("", "~~~"):
            key = keys.key(item, {"a": value, "b": 1})
            assert key is not None
            within = any(each.low <= key < each.high for each in made.ranges)
            assert within == any(value is each or (value == each and value is not True) for each in inside), value


def test_ids_that_a_filter_names_are_read_alone() -> None:
    assert plan('id = "f" or id = "b"').items == ["b", "f"]
    assert plan('["f", "b"] has id', "-id").items == ["b", "f"]
    assert plan('id = "f" or id > "k"').items == []
    assert plan("").items == []


def test_many_ranges_are_one() -> None:
    query = " or ".join(f"a = {number}" for number in range(20))
    assert len(plan(query, "", "a").ranges) == 1
    assert len(plan("a = 1 or a = 2 or a = 9", "", "a").ranges) == 3


def test_groups_are_of_the_fields_that_are_in_order() -> None:
    assert [field.text for field in plan("", "a,b", "a").group] == ["a"]
    assert [field.text for field in plan("", "-a", "a").group] == ["-a"]
    assert plan("", "b", "a").group == ()


def test_a_key_of_another_order_is_refused() -> None:
    with pytest.raises(BadInput):
        split_key(parse_order("a,id"), b"\x20a\0\0")
    with pytest.raises(BadInput):
        split_key(parse_order("a,id"), b"nonsense")
