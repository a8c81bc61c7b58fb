"""What a column of a database keeps as it is, and what the server would change without an error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.sql import column_limits
from headwater.adaptors.sql.column_limits import Keeps

MEMBERS = column_limits.member(("a", "7"))


def at(text: str) -> dict[str, str]:
    return {"$date": text}


@pytest.mark.parametrize(
    ("keeps", "kept", "changed"),
    [
        (
            column_limits.decimals(2),
            [5, Decimal("1.2000"), Decimal("1E+3"), 0.1, "1.20", "no", True, Decimal("NaN"), float("inf"), Decimal("0E-9")],
            [Decimal("1.234"), 1.005, "1.234", {"$numberDecimal": "1.234"}, Decimal("1E-400"), Decimal("9" * 40 + ".001")],
        ),
        (column_limits.decimals(-2), [100, 0], [150, Decimal("1E+1")]),
        (
            column_limits.double,
            [0.1, 2**53, 2**60, Decimal("0.1"), Decimal("1E+400"), "1.5", "no", True, {"$numberDouble": "NaN"}],
            [2**53 + 1, -(2**53) - 1, Decimal("0.12345678901234567890"), Decimal("1E-400"), "9007199254740993"],
        ),
        (
            column_limits.single,
            [0.1, 16777216, Decimal("0.1"), 0.10000000149011612, 1e300, float("nan"), 0.12345679],
            [16777217, 0.123456789, 2**60 + 1, 1e-60, Decimal("3.14159265")],
        ),
        (
            column_limits.seconds(0),
            [at("2024-02-29T12:00:00Z"), "2024-02-29 12:00", "2024-02-29 12:00:00.000", 5, "infinity"],
            [at("2024-02-29T12:00:00.999Z"), "2024-02-29 12:00:00.9"],
        ),
        (
            column_limits.seconds(6),
            [at("2024-02-29T23:59:59.999999999Z"), "12:00:00.123456"],  # every sink cuts nanoseconds of a date
            ["2024-02-29 12:00:00.1234567"],
        ),
        (
            column_limits.clock(3),
            ["12:30:00.123", "12:30"],
            ["12:30:00.1234", at("2024-02-29T12:00:00Z"), "2024-02-29 12:30", "2/29/24 12:30"],
        ),
        (
            column_limits.day,
            [at("2024-02-29T00:00:00Z"), at("2024-02-29T05:00:00+05:00"), "2024-02-29", "2024-02-29T00:00:00", 20240229, "infinity"],
            [at("2024-02-29T12:00:00Z"), at("2024-02-29T00:00:00-05:00"), at("2024-02-29T00:00:00.001Z"), "2024-02-29 00:01"],
        ),
        (column_limits.letters(3), ["abc", "a  ", "abcd", 12345], ["abc ", "a    "]),  # the server refuses letters beyond the length
        (column_limits.text, ["1 day", {"$oid": "507f1f77bcf86cd799439011"}], [5, 1.5, True]),
        (
            column_limits.dated,
            [at("2024-02-29T12:00:00Z"), "2024-02-29", 20240229, None],
            [1, 0.1, True, Decimal("0.1"), "10.0.0.5/8", "24-2-29"],
        ),
        (column_limits.timed, ["12:30", None], [101, 1.005, "101", "1.005", True]),
        (column_limits.no_truth, ["a", 1], [True, False]),
        (MEMBERS, ["a", "7", "unknown"], [1, "1", True, Decimal("1.0")]),
        (column_limits.year, [2024, "2024", 0, "no"], [24, "24", "0", Decimal("24.0")]),
        (column_limits.both(column_limits.single, column_limits.decimals(1)), [0.5], [0.25, 16777217]),
    ],
)
def test_what_is_kept_and_what_is_changed(keeps: Keeps, kept: list[Any], changed: list[Any]) -> None:
    assert [value for value in kept if not keeps(value)] == []
    assert [value for value in changed if keeps(value)] == []
