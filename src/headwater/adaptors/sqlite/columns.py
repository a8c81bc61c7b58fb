"""Column types of SQLite: how each is declared, and the conversion of values. Pure.

SQLite stores a value in a column by its declared type, its affinity. So numbers are in columns whose affinity is a number's: there they
compare, sort and add up as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from headwater.pipeline import values
from headwater.pipeline.columns import ColumnKind, ColumnRules, ColumnType, short

DECIMAL_TEXT = "DECIMAL TEXT"  # decimals that SQLite has no number for: exact, and compared as text
_DECLARED: dict[ColumnKind, str] = {
    "bool": "BOOLEAN",
    "int": "INTEGER",
    "float": "REAL",
    "decimal": "NUMERIC",
    "bytes": "BLOB",
    "object": "JSON TEXT",
    "list": "JSON TEXT",
    "any": "",
}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_STORED = frozenset({type(None), bool, int, float, str})
_WIDEST = 400  # digits: more than a float has before or behind the point


class SqliteColumns(ColumnRules):
    """What the tables of a database file can hold."""

    def settled(self, wanted: ColumnType) -> ColumnType | None:
        match wanted.kind:
            case "int":
                return ColumnType("int", whole=19)
            case "float":
                return ColumnType("float", infinite=True)  # SQLite takes NaN for null
            case "decimal":
                if wanted.nan or wanted.infinite:
                    return None
                return ColumnType("decimal", whole=1 << 30, scale=1 << 30, exact=True) if wanted.exact else _NUMERIC
            case "object" | "list":
                return ColumnType(wanted.kind)
            case "any":
                return ColumnType("any")
        return wanted

    def widens(self, before: ColumnType, after: ColumnType) -> bool:
        """Integers and decimals differ in nothing but the name: a column of either stores both. A column cannot get another affinity."""
        return before == after or (before.kind == "int" and after == _NUMERIC)

    def named(self, column: ColumnType) -> str:
        return declared(column) or "ANY"


_NUMERIC = ColumnType("decimal", whole=_WIDEST, scale=_WIDEST)
RULES = SqliteColumns()


def declared(column: ColumnType | None) -> str:
    """The type in CREATE TABLE; empty for a column without affinity."""
    if column is None:
        return ""
    return DECIMAL_TEXT if column.kind == "decimal" and column.exact else _DECLARED.get(column.kind, "TEXT")


def cells(column: Sequence[Any], kind: ColumnType | None = None) -> Sequence[Any]:
    """`cell` for a column; the column itself where nothing is to convert, which is quicker to see for all at once."""
    if kind is not None and kind.kind == "decimal" and kind.exact:
        return [None if value is None else _text(values.native(value)) for value in column]
    kinds = set(map(type, column))
    if kind == _NUMERIC and kinds == {Decimal} and short(column):
        return list(map(float, column))
    if kind == _NUMERIC and kinds <= {Decimal, type(None)} and short(value for value in column if value is not None):
        return [None if value is None else float(value) for value in column]  # SQLite makes integers of what has no fraction
    if kinds <= _STORED and not (float in kinds and any(value != value for value in column)):
        numbers = column if kinds == {int} else [value for value in column if type(value) is int]
        if not numbers or (min(numbers) >= _LEAST and max(numbers) <= _MOST):
            return column
    return [cell(value) for value in column]


def cell(value: Any) -> Any:
    """A document's value as SQLite stores it: objects and lists as JSON text, booleans as numbers, decimals as numbers where SQLite has
    that number, else as text."""
    if value is None or isinstance(value, int | float | str):
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            return _number(Decimal(value))
        if value == value:
            return int(value) if isinstance(value, bool) else value
    value = values.native(value)
    if value != value:
        return "NaN"  # SQLite would store null
    if isinstance(value, int):
        return cell(value)
    if isinstance(value, bytes | float | str):
        return value
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return values.encode(value).decode()


def comparable(value: Any, kind: str = "") -> Any:
    """A stored cell in the one spelling of its number: 1 and 1.0 are equal, and 1 and the text 1 are not. `kind`: the column's declared
    type."""
    if kind == DECIMAL_TEXT and isinstance(value, str):
        value = Decimal(value)
    if isinstance(value, float) and isfinite(value):
        value = _exact(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        return value
    if value == value.to_integral_value():
        return int(value) if _LEAST <= value <= _MOST else _spelled(value)
    return number if Decimal(repr(number := float(value))) == value else _spelled(value)


def stored(value: Any) -> Any:
    """A document's value in the spelling of `comparable`."""
    native = values.native(value)
    exact = isinstance(native, int) and not isinstance(native, bool) and not _LEAST <= native <= _MOST
    finite = isinstance(native, Decimal) and native.is_finite()  # of others a table has the text
    return comparable(Decimal(native) if exact else native if finite else cell(value))


def _number(value: Decimal) -> int | float | str:
    """A decimal as SQLite's number, where there is one that prints as the decimal; else its text."""
    if not value.is_finite():
        return str(value)
    if value == value.to_integral_value() and _LEAST <= value <= _MOST:
        return int(value)
    return number if Decimal(repr(number := float(value))) == value else str(value)


def _exact(value: float) -> Decimal:
    """A float as SQLite's columns of numbers hold it: one without a fraction as an integer, else what it prints as."""
    return Decimal(value) if value.is_integer() and _LEAST <= value <= _MOST else Decimal(repr(value))


def _text(value: Any) -> str:
    return str(value if isinstance(value, Decimal) else _exact(value) if isinstance(value, float) else Decimal(value))


def _spelled(value: Decimal) -> dict[str, str]:
    """A decimal that is no number of SQLite's, without the zeros that say nothing: 1.10 and 1.1 are equal. No text is equal to it."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    return {"$numberDecimal": f"{'-' if sign else ''}{text}E{exponent + len(digits) - len(text)}"}
