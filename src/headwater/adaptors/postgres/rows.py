"""Values in the form that PostgreSQL reads from JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from headwater.adaptors.postgres.tables import PostgresTable
from headwater.adaptors.sql import column_limits
from headwater.adaptors.sql.column_limits import Keeps
from headwater.adaptors.sql.row_shape import AS_IT_IS, RowShape
from headwater.pipeline import values

_DECLARED = re.compile(r"([a-z ]+?)(?:\((\d+)(?:,(-?\d+))?\))?(?: with(?:out)? time zone)?")
_BEYOND_MICROS = re.compile(r"(\.\d{6})\d+")


class PostgresShape(RowShape[PostgresTable]):
    """Rows for `json_populate_recordset`."""

    def limits(self) -> Mapping[str, Keeps]:
        return {column.name: keeps for column in self.table.columns if (keeps := _limit(column.declared)) is not None}

    def json(self, value: Any) -> Any:
        return value

    def plain(self, value: Any, kind: str) -> Any:
        if isinstance(value, list):
            return [item if type(item) in AS_IT_IS else self.plain(item, kind) for item in value]
        text = value["$date"] if isinstance(value, dict) and value.keys() == {"$date"} else None
        if isinstance(text, str):  # the server would round nanoseconds, and a day may end by that; all sinks cut them
            text = _BEYOND_MICROS.sub(r"\1", text)
        if isinstance(text, str) and text.endswith("Z"):
            return text  # PostgreSQL reads it for any year
        match values.native(value):
            case datetime() as stamp:
                return (stamp.astimezone(UTC) if stamp.tzinfo else stamp).isoformat()
            case bytes() as data:
                return f"\\x{data.hex()}"
            case dict() if isinstance(text, str):
                return text  # a year that Python does not know; PostgreSQL would ignore a zone for a column without one
            case UUID() as uuid:
                return str(uuid)
            case float() as number:
                return number if isfinite(number) else str(number)
            case Decimal() as number:
                return number if number.is_finite() else str(number)
            case other:
                return other


def _limit(declared: str) -> Keeps | None:
    """The test of what a column keeps; None where the server keeps or refuses every value. Types of lists and domains are not known."""
    match = _DECLARED.fullmatch(declared)
    if match is None:
        return None
    name, first, second = match.groups()
    match name:
        case "numeric" if first:
            return column_limits.decimals(int(second or 0))
        case "double precision":
            return column_limits.double
        case "real":
            return column_limits.single
        case "timestamp":
            return column_limits.seconds(int(first or 6))
        case "time":
            return column_limits.clock(int(first or 6))
        case "date":
            return column_limits.day
        case "character varying" | "character" if first:
            return column_limits.letters(int(first))
        case _ if name.startswith("interval"):
            return column_limits.text
    return None
