"""Values in the form that PostgreSQL reads from JSON. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from headwater.adaptors.postgres.tables import PostgresTable
from headwater.adaptors.sql.row_shape import AS_IT_IS, RowShape
from headwater.pipeline import values


class PostgresShape(RowShape[PostgresTable]):
    """Rows for `json_populate_recordset`."""

    def json(self, value: Any) -> Any:
        return value

    def plain(self, value: Any, kind: str) -> Any:
        if isinstance(value, list):
            return [one if type(one) in AS_IT_IS else self.plain(one, kind) for one in value]
        text = value["$date"] if isinstance(value, dict) and value.keys() == {"$date"} else None
        if isinstance(text, str) and text.endswith("Z"):
            return text  # PostgreSQL reads it for any year
        match values.native(value):
            case datetime() as stamp:
                return (stamp.astimezone(UTC) if stamp.tzinfo else stamp).isoformat()
            case bytes() as data:
                return f"\\x{data.hex()}"
            case dict() if isinstance(text, str):
                return text  # a year that Python does not know; PostgreSQL would ignore a zone for a column without one
            case UUID() as one:
                return str(one)
            case float() as number:
                return number if isfinite(number) else str(number)
            case Decimal() as number:
                return number if number.is_finite() else str(number)
            case other:
                return other
