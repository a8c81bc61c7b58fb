"""Column types of PostgreSQL and MariaDB."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.mysql.columns import RULES as MYSQL
from headwater.adaptors.postgres.columns import RULES as POSTGRES
from headwater.pipeline.columns import ColumnType, holds, observed, type_of


@pytest.mark.parametrize(
    ("value", "postgres", "mysql"),
    [
        (Decimal("1e-31"), True, False),
        (Decimal(10) ** 34, True, True),
        (Decimal(10) ** 35, True, False),
        ({"$numberDouble": "NaN"}, True, False),
        ({"$numberDecimal": "NaN"}, True, False),
        (1e308, True, False),
    ],
)
def test_what_a_column_of_numbers_holds(value: Any, postgres: bool, mysql: bool) -> None:
    kind = "float" if isinstance(value, dict) and "$numberDouble" in value else "decimal"
    sample = {"v": 1.5 if kind == "float" else Decimal("1.5")}
    held = [holds(observed([sample], rules)["v"], value) for rules in (POSTGRES, MYSQL)]
    assert held == [postgres, mysql]


def test_json_holds_what_comes_later_and_a_key_does_not() -> None:
    column = observed([{"v": {"a": 1}}], POSTGRES)["v"]
    text = type_of("x")
    assert text is not None
    assert POSTGRES.widened(column, text, key=False) == ColumnType("any", exact=True)
    assert POSTGRES.widened(column, text, key=True) is None
    assert (POSTGRES.described_as(column), MYSQL.described_as(ColumnType("bool"))) == ("json", "int")
