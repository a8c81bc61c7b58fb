"""Values: equality and order agree with the keys of indexes, and nothing converts."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from headwater.core import bytekeys
from headwater.documents.filter.values import EvaluationError, as_decimal, at_path, calculate, kind, order, same, truth, whole

VALUES: list[Any] = [
    *[None, True, False, 0, -0.0, 1, 1.0, Decimal("1.00"), 0.1, Decimal("0.1"), Decimal("0.10"), -1, 10**23, 1e23, 2**53 + 1, float(2**53)],
    *[
        Decimal("1e400"),
        Decimal("-1e-400"),
        "",
        "1",
        "a",
        "é",
        "\uffff",
        "😀",
        "a\0",
        [],
        [1],
        [1.0],
        [True],
        {},
        {"a": 1},
        {"a": 1.0, "b": None},
    ],
]


def test_equality_is_that_of_the_keys() -> None:
    for left, right in product(VALUES, VALUES):
        assert same(left, right) == (bytekeys.encode((left,)) == bytekeys.encode((right,))), (left, right)


def test_order_is_that_of_the_keys_within_numbers_and_texts() -> None:
    for left, right in product(VALUES, VALUES):
        keys = bytekeys.encode((left,)), bytekeys.encode((right,))
        if kind(left) == kind(right) and kind(left) in (0, 1, 2):
            assert order(left, right) == (keys[0] > keys[1]) - (keys[0] < keys[1]), (left, right)
        else:
            assert order(left, right) is None


@pytest.mark.parametrize("value", [True, 1, -2.5, "true", "Y", "yes", "on", "1"])
def test_what_counts_as_true(value: Any) -> None:
    assert truth(value) is True


@pytest.mark.parametrize("value", [False, None, 0, 0.0, Decimal("0.00"), "false", "N", "no", "off", "0"])
def test_what_counts_as_false(value: Any) -> None:
    assert truth(value) is False


@pytest.mark.parametrize("value", ["", "maybe", [], {}, [1]])
def test_what_is_neither(value: Any) -> None:
    with pytest.raises(EvaluationError):
        truth(value)


def test_calculations_are_exact_decimals() -> None:
    assert calculate("+", 0.1, 0.2) == Decimal("0.3")
    assert calculate("/", 10, 4) == Decimal("2.5")
    assert calculate("%", -7, 3) == -1
    assert calculate("*", 10**30, 3) == 3 * 10**30
    assert calculate("-", 5, Decimal("0.5")) == Decimal("4.5")
    for operator, left, right in [
        ("/", 1, 0),
        ("%", 1, 0),
        ("*", Decimal("1e9000"), Decimal("1e9000")),
        ("+", 1, "1"),
        ("+", None, 1),
        ("-", True, 1),
    ]:
        with pytest.raises(EvaluationError):
            calculate(operator, left, right)


def test_whole_numbers() -> None:
    assert whole(Decimal("3.0")) == 3
    for wrong in (2.5, Decimal("1e30"), "1", None):
        with pytest.raises(EvaluationError):
            whole(wrong)
    with pytest.raises(EvaluationError):
        as_decimal(True)


def test_a_path_through_what_is_no_object_is_null() -> None:
    body = {"a": {"b": 1}, "c": [1], "d": "x"}
    assert at_path(body, ("a", "b")) == 1
    for names in (("a", "x"), ("x", "b"), ("c", "b"), ("d", "b"), ("a", "b", "c")):
        assert at_path(body, names) is None
