"""Values in the form that PyMySQL takes. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, ClassVar
from uuid import UUID

from headwater.adaptors.mysql.tables import MysqlTable
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

    def names(self, absent: frozenset[str]) -> tuple[str, ...]:
        """The columns that an INSERT names."""
        found = self._names.get(absent)
        if found is None:
            found = self._names[absent] = tuple(name for name in self._writable if name not in absent)
        return found

    def json(self, value: Any) -> Any:
        return None if value is None else values.encode(value).decode()

    def plain(self, value: Any, kind: str) -> Any:
        match values.native(value):
            case datetime() as stamp:
                return stamp.astimezone(UTC).replace(tzinfo=None) if stamp.tzinfo else stamp
            case UUID() as one:
                return str(one)
            case float() | Decimal() as number:
                if not (number.is_finite() if isinstance(number, Decimal) else isfinite(number)):
                    raise ValueError(f"{number}, which MySQL cannot hold")
                if kind in self.rounded and number != int(number):  # the server would round it silently
                    raise ValueError(f"{number}, and its column holds whole numbers only")
                # The server turns a literal with more digits into its largest number. It reads the same number from text.
                return str(number) if isinstance(number, Decimal) and number.adjusted() >= DIGITS else number
            case str() as text if kind in self.rounded and (said := values.number(text)) is not None and said != int(said):
                raise ValueError(f"{text}, and its column holds whole numbers only")
            case dict() | list() as nested:
                return self.json(nested)
            case other:
                return other
