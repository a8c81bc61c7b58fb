"""Values in the form that PyMySQL takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, ClassVar
from uuid import UUID

from headwater.adaptors.mysql.tables import MysqlColumn, MysqlTable
from headwater.adaptors.sql import column_limits
from headwater.adaptors.sql.column_limits import Keeps
from headwater.adaptors.sql.row_shape import RowShape
from headwater.pipeline import values

DIGITS = 65  # of a number that is written out in a statement


class MySQLShape(RowShape[MysqlTable]):
    """Rows for INSERT, UPDATE and DELETE."""

    rounded: ClassVar[frozenset[str]] = frozenset({"int", "bits"})

    def __init__(self, table: MysqlTable) -> None:
        super().__init__(table)
        self._writable = tuple(column.name for column in table.columns if not column.generated)
        self._names: dict[frozenset[str], tuple[str, ...]] = {}

    def limits(self) -> Mapping[str, Keeps]:
        return {column.name: keeps for column in self.table.columns if (keeps := _limit(column)) is not None}

    def names(self, absent: frozenset[str]) -> tuple[str, ...]:
        """The columns that an INSERT names."""
        names = self._names.get(absent)
        if names is None:
            names = self._names[absent] = tuple(name for name in self._writable if name not in absent)
        return names

    def json(self, value: Any) -> Any:
        return None if value is None else values.encode(value).decode()

    def plain(self, value: Any, kind: str) -> Any:
        match values.native(value):
            case datetime() as stamp:
                return stamp.astimezone(UTC).replace(tzinfo=None) if stamp.tzinfo else stamp
            case UUID() as uuid:
                return str(uuid)
            case float() | Decimal() as number:
                if not (number.is_finite() if isinstance(number, Decimal) else isfinite(number)):
                    raise ValueError(f"{number}, which MySQL cannot hold")
                if kind in self.rounded and number != int(number):  # the server would round it silently
                    raise ValueError(f"{number}, and its column holds whole numbers only")
                # The server turns a literal with more digits into its largest number. It reads the same number from text.
                return str(number) if isinstance(number, Decimal) and number.adjusted() >= DIGITS else number
            case str() as text if (
                kind in self.rounded and (text_number := values.number(text)) is not None and text_number != int(text_number)
            ):
                raise ValueError(f"{text}, and its column holds whole numbers only")
            case dict() | list() as nested:
                return self.json(nested)
            case other:
                return other


def _limit(column: MysqlColumn) -> Keeps | None:
    """The test of what a column keeps; None where the server keeps or refuses every value."""
    match column.kind:
        case "decimal":
            return column_limits.decimals(column.scale or 0)
        case "float" | "double":
            keeps = column_limits.single if column.kind == "float" else column_limits.double
            return keeps if column.scale is None else column_limits.both(keeps, column_limits.decimals(column.scale))
        case "moment":
            return column_limits.both(column_limits.dated, column_limits.seconds(column.precision))
        case "time":
            return column_limits.both(column_limits.timed, column_limits.clock(column.precision))
        case "date":
            return column_limits.both(column_limits.dated, column_limits.day)
        case "int" if column.data_type == "year":
            return column_limits.both(column_limits.no_truth, column_limits.year)
        case "set":
            return column_limits.member(column.members)
        case "text" if column.data_type == "enum":
            return column_limits.member(column.members)
        case "text":
            letters = column_limits.letters(column.letters)
            return column_limits.both(column_limits.no_truth, letters) if column.letters else column_limits.no_truth
    return None
