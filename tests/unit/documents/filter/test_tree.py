"""Trees: constants are equal by value, and a visitor meets every kind of node."""

from __future__ import annotations

from decimal import Decimal

from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.filter.tree import constant


def test_constants_are_equal_by_value_and_type() -> None:
    assert constant(1) == constant(1.0) == constant(Decimal("1.00"))
    assert len({constant(1), constant(True), constant("1"), constant(None), constant((1,)), constant({"a": 1})}) == 6


def test_a_visitor_meets_every_kind_of_node() -> None:
    assert compile_filter("!(-a + 1 > 2 and length(b) = 1)").accepts({"a": 5, "b": "x"})
