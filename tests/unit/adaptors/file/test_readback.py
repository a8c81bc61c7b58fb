"""Documents before and after a file of columns, compared."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.file.readback import of_table
from headwater.pipeline import values


def text(value: Any) -> bytes:
    return values.canonical(values.extended(of_table({"f": value})))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (float("inf"), {"$numberDouble": "Infinity"}),
        ([float("-inf")], [float("-inf")]),
        (float("nan"), {"$numberDecimal": "NaN"}),
        ({"$numberDecimal": "Infinity"}, float("inf")),
        (1.1, Decimal("1.10")),
        (True, True),
    ],
)
def test_the_same_value_in_two_spellings_is_one(written: Any, read: Any) -> None:
    assert text(written) == text(read)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (Decimal("0.1234567890123456789012345678901"), Decimal("0.1234567890123456789012345678902")),
        (float("inf"), float("nan")),
        (True, 1),
    ],
)
def test_other_values_stay_other_values(written: Any, read: Any) -> None:
    assert text(written) != text(read)
