"""SQLite's columns: what is declared, what is stored, and what compares as equal."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adaptors.sqlite.columns import RULES, cells, comparable, declared, stored
from headwater.pipeline.columns import ColumnType, observed


@given(
    numbers=st.lists(
        st.one_of(st.integers(-(2**64), 2**64), st.decimals(allow_nan=False, allow_infinity=False, places=3), st.floats(-1e300, 1e300)),
        min_size=1,
        max_size=6,
    )
)
def test_numbers_come_back_as_they_are_and_compare_as_numbers(numbers: list[Any]) -> None:
    column = observed([{"v": one} for one in numbers], RULES)["v"]
    db = sqlite3.connect(":memory:")
    db.execute(f"create table t (n, v {declared(column)})")
    db.executemany("insert into t values (?, ?)", enumerate(cells(numbers, column)))
    back = [comparable(row[0], declared(column)) for row in db.execute("select v from t order by n")]
    assert back == [stored(one) for one in numbers]
    if not column.exact:
        assert {row[0] for row in db.execute("select typeof(v) from t")} <= {"integer", "real"}
        assert float(db.execute("select max(v) from t").fetchone()[0]) == float(max(numbers, key=Decimal))
    db.close()


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (Decimal("12.00"), 12, True),
        (Decimal("1.20"), 1.2, True),
        (1, "1", False),
        (Decimal("1.5"), "1.5", False),
        (Decimal("0.10000000000000000001"), "0.10000000000000000001", False),
        (2**63, str(2**63), False),
    ],
)
def test_a_number_and_its_text_are_not_equal(one: Any, other: Any, equal: bool) -> None:
    assert (stored(one) == comparable(other)) is equal


def test_text_that_looks_like_a_number_stays_text_beside_decimals_that_are_text() -> None:
    column = observed([{"v": Decimal("0.10000000000000000001")}], RULES)["v"]
    assert declared(column) == "DECIMAL TEXT"
    assert cells([Decimal("12.00"), 3, 1.5, None], column) == ["12.00", "3", "1.5", None]
    assert comparable("12.00", "DECIMAL TEXT") == 12
    assert comparable("12.00", "TEXT") == "12.00"


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_a_decimal_that_is_no_number_is_compared_as_the_text_that_a_table_has_of_it(text: str) -> None:
    [cell] = cells([{"$numberDecimal": text}], ColumnType("any"))
    assert comparable(cell) == stored({"$numberDecimal": text})
