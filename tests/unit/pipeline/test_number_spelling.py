"""Equal numbers have one spelling, and different ones never do."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headwater.pipeline import values
from headwater.pipeline.number_spelling import spelled

Number = int | float | Decimal
LONG = "12345678901234567890123456789012345678"


def text(number: Number) -> bytes:
    return values.canonical(spelled(number))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (5, Decimal("5.00")),
        (5.0, 5),
        (True, 1),
        (1.1, Decimal("1.10")),
        (0, Decimal("-0E+900")),
        (-0.0, 0),
        (10**30, 1e30),
        (10**40 + 1, Decimal(10**40 + 1)),
        (float("nan"), Decimal("sNaN")),
        (float("-inf"), Decimal("-Infinity")),
        (Decimal(f"0.{LONG}0"), Decimal(f"0.{LONG}")),
    ],
)
def test_equal_numbers_of_any_type_have_one_spelling(one: Number, other: Number) -> None:
    assert text(one) == text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal(f"0.{LONG}"), Decimal(f"0.{LONG[:-1]}9")),
        (Decimal(f"{LONG}.5"), Decimal(f"{LONG}.4")),
        (10**40 + 1, Decimal(10**40)),
        (float("inf"), float("-inf")),
        (float("inf"), float("nan")),
        (Decimal("1E+99999"), Decimal("1E+99998")),
    ],
)
def test_different_numbers_never_have_one_spelling(one: Number, other: Number) -> None:
    assert text(one) != text(other)
