"""Writes the table of docs/reference/columns.md from the types that sinks make columns of: `python -m tools.columns_page`."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from headwater.adaptors.file.parquet_columns import RULES as PARQUET
from headwater.adaptors.mysql.columns import RULES as MYSQL
from headwater.adaptors.postgres.columns import RULES as POSTGRES
from headwater.adaptors.sqlite.columns import RULES as SQLITE
from headwater.pipeline.columns import ColumnRules, observed

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "columns.md"
SINKS: dict[str, ColumnRules] = {"Parquet": PARQUET, "SQLite": SQLITE, "PostgreSQL": POSTGRES, "MariaDB, MySQL": MYSQL}
VALUES: dict[str, list[Any]] = {
    "truth values": [True],
    "integers of at most 64 bits": [1],
    "integers beyond 64 bits": [2**70 + 1],
    "floats": [1.5],
    "integers of at most 15 digits and floats": [1, 1.5],
    "decimals": [Decimal("1.20")],
    "integers and decimals": [1, Decimal("1.20")],
    "decimals that no float prints": [Decimal("0.10000000000000000001")],
    "text": ["x"],
    "`$oid`": [{"$oid": "507f1f77bcf86cd799439011"}],
    "`$date`": [{"$date": 0}],
    "`$binary`": [{"$binary": {"base64": "AA==", "subType": "00"}}],
    "`$uuid`": [{"$uuid": "00000000-0000-0000-0000-000000000001"}],
    "objects": [{"a": 1, "b": "x"}],
    "lists": [[1, 2]],
    "text and numbers": ["x", 1],
}
HEAD = f"| values of the sample | {' | '.join(SINKS)} |"
TABLE = re.compile(rf"^{re.escape(HEAD)}\n(?:\|.*\n)+", re.MULTILINE)


def text() -> str:
    """The page as it should be: what it says, with the table as it is now."""
    rows = [f"| {name} | {' | '.join(_named(rules, values) for rules in SINKS.values())} |" for name, values in VALUES.items()]
    table = "\n".join([HEAD, "|" + "---|" * (len(SINKS) + 1), *rows]) + "\n"
    return TABLE.sub(lambda match: table, PAGE.read_text("utf-8"))


def _named(rules: ColumnRules, values: list[Any]) -> str:
    """The column for all of these values."""
    column = observed([{"v": value} for value in values], rules).get("v")
    mixed = observed([{"v": value} for value in reversed(values)], rules).get("v")
    return f"`{rules.named(column)}`" if column is not None and column == mixed else "–"


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
