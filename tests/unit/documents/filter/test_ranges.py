"""Sets of values as ranges of keys: they hold exactly the values for which a comparison is true."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from headwater.core import bytekeys
from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.filter.ranges import ALL, NONE, KeyRange, KeyRanges, compared, invert, next_prefix, point, text_of
from headwater.documents.filter.tree import constant

VALUES: list[Any] = [None, False, True, -3, 0, 1, 1.5, 10, "", "a", "ab", "b", [], [1], {}, {"a": 1}]
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")


def holds(values: KeyRanges, key: bytes) -> bool:
    return any(each.low <= key < each.high for each in values.ranges)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_comparison_leaves_exactly_its_values(operator: str) -> None:
    for value, other in product(VALUES, VALUES):
        accepted = compile_filter(f"a {operator} b").accepts({"a": value, "b": other})
        assert holds(compared(operator, constant(other)), constant(value).key) == accepted, (value, operator, other)


def test_sets_are_united_cut_and_turned_round() -> None:
    sets = [compared(operator, constant(value)) for operator, value in product(OPERATORS, VALUES)]
    for one, two in product(sets[::3], sets[::4]):
        both, either = one.intersection(two), one.union(two)
        for value in VALUES:
            key = constant(value).key
            assert holds(both, key) == (holds(one, key) and holds(two, key))
            assert holds(either, key) == (holds(one, key) or holds(two, key))
            assert holds(one.complement(), key) != holds(one, key)
        assert both.within(one)
        assert one.within(either)
    assert NONE.complement() == ALL
    assert ALL.complement() == NONE
    assert ALL.hull == KeyRange(b"\x05", b"\xff")
    assert ALL.ranges[0].point is None
    assert point(constant(3).key).ranges[0].point == constant(3).key


@pytest.mark.parametrize("descending", [False, True])
def test_bounds_hold_whatever_follows_in_a_row(descending: bool) -> None:
    behind = [bytekeys.encode((None,)), invert(bytekeys.encode((None,))), bytekeys.encode(({"z": 1},)), invert(bytekeys.encode(("x",)))]
    for operator, other, value, rest in product(("=", "<", "<=", ">", ">="), VALUES, VALUES, behind):
        for each in compared(operator, constant(other)).ranges:
            bounds = each.inverted() if descending else each
            key = invert(constant(value).key) if descending else constant(value).key
            inside = each.low <= constant(value).key < each.high
            assert (bounds.low <= key + rest < (bounds.high or b"\xff")) == inside, (value, operator, other)


def test_prefixes_and_texts() -> None:
    assert next_prefix(b"a\xff\xff") == b"b"
    assert next_prefix(b"\xff") == b""
    assert text_of(constant("abc").key) == "abc"
    assert text_of(constant("abc").key + b"\xff") == "abc\0"
    assert text_of(b"\x21") is None
