"""Documents before and after a table, compared."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.sql.compare import comparable
from headwater.pipeline import values


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (1.1, Decimal("1.10")),
        (5, Decimal("5.00")),
        (5, 5.0),
        (True, 1),
        (Decimal("12345678901234567890.120"), Decimal("12345678901234567890.12")),
        ({"$date": "2020-01-01T00:00:00Z"}, {"$date": "2020-01-01T00:00:00.000Z"}),
        ({"$date": 0}, {"$date": "1970-01-01T00:00:00.000Z"}),
        ({"$numberLong": "7"}, 7),
        (10**35 + 1, Decimal(10**35 + 1)),
        ({"$numberDouble": "NaN"}, {"$numberDecimal": "NaN"}),
        (float("inf"), {"$numberDecimal": "Infinity"}),
        ({"a": [1.0, {"b": 2.50}]}, {"a": [1, {"b": Decimal("2.5")}]}),
    ],
)
def test_the_same_value_in_two_spellings_is_one(written: Any, read: Any) -> None:
    assert values.canonical(comparable({"f": written})) == values.canonical(comparable({"f": read}))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1", 1),
        (1, 2),
        (Decimal("0.1"), Decimal("0.10000000001")),
        (Decimal("0.1234567890123456789012345678901"), Decimal("0.1234567890123456789012345678902")),
        ({"$date": "2020-01-01T00:00:00Z"}, {"$date": "2020-01-01T00:00:00.001Z"}),
        ({"$numberDouble": "NaN"}, None),
    ],
)
def test_other_values_stay_other_values(written: Any, read: Any) -> None:
    assert values.canonical(comparable({"f": written})) != values.canonical(comparable({"f": read}))


def test_a_null_is_as_good_as_no_field() -> None:
    assert comparable({"a": None, "b": 1}) == {"b": 1}


def test_a_document_nested_deeper_than_we_can_walk_is_compared_as_it_is() -> None:
    deep = values.decode(b'{"a":' + b"[" * 900 + b"1.10" + b"]" * 900 + b"}")
    assert values.encode(comparable(deep)) == values.encode(deep)
    assert comparable({"a": [[Decimal("1.10")]]}) == comparable({"a": [[Decimal("1.1")]]})
