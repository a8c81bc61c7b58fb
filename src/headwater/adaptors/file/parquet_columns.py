"""Column types of Parquet: the Arrow type of each, and the conversion of values. Pure.

One schema has to hold for all parts of a folder. Spark reads an older part with a newer schema where a column of integers has become
decimal(38,18), or another decimal with at least 20 digits before the point, and where columns are new. It reads no other change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from headwater.pipeline import values
from headwater.pipeline.columns import ColumnRules, ColumnType, TableColumns

_DIGITS = 38  # of a decimal128, and of Spark's decimals
_SCALE = 18
_OF_INTEGERS = 20  # digits before the point that Spark asks for in place of 64-bit integers

_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "oid": pa.string(),
    "uuid": pa.string(),
    "moment": pa.timestamp("us", tz="UTC"),
    "bytes": pa.binary(),
}


class ParquetColumns(ColumnRules):
    """What a folder of Parquet parts can hold."""

    keyed: ClassVar[bool] = False
    cased: ClassVar[bool] = False  # Spark reads no folder with two such columns, or two such fields of an object

    def settled(self, wanted: ColumnType) -> ColumnType | None:
        match wanted.kind:
            case "any":
                return None
            case "int":
                return ColumnType("int", whole=19)
            case "float":
                return ColumnType("float", nan=True, infinite=True)
            case "decimal":
                if wanted.nan or wanted.infinite or wanted.whole + wanted.scale > _DIGITS:
                    return None
                scale = max(wanted.scale, min(_SCALE, _DIGITS - wanted.whole))
                return ColumnType("decimal", whole=_DIGITS - scale, scale=scale, exact=True)
            case "object":
                fields = {name: self.settled(column) for name, column in wanted.fields.items()}
                some = {name: column for name, column in fields.items() if column is not None and column.kind != "null"}
                if None in fields.values() or any(self.twin(name, some) is not None for name in some):
                    return None
                return ColumnType("object", fields=some) if some else ColumnType("null")
            case "list":
                item = ColumnType("text") if wanted.item is None else self.settled(wanted.item)
                if item is None:
                    return None
                return ColumnType("list", item=ColumnType("text") if item.kind == "null" else item)
        return wanted

    def widens(self, before: ColumnType, after: ColumnType) -> bool:
        if before == after or before.kind == "null":
            return True
        if before.kind == "int":
            return after.kind == "decimal" and after.whole >= _OF_INTEGERS
        if before.kind != after.kind:
            return False
        match before.kind:
            case "object":
                return all(name in after.fields and self.widens(column, after.fields[name]) for name, column in before.fields.items())
            case "list":
                return before.item is not None and after.item is not None and self.widens(before.item, after.item)
            case "decimal":
                return before.whole <= after.whole and before.scale <= after.scale
        return True

    def named(self, column: ColumnType) -> str:
        return str(arrow_type(column))


RULES = ParquetColumns()


def arrow_type(column: ColumnType) -> pa.DataType:
    """The Arrow type of a settled column."""
    match column.kind:
        case "decimal":
            return pa.decimal128(_DIGITS, column.scale)
        case "object":
            return pa.struct([(name, arrow_type(field)) for name, field in column.fields.items()])
        case "list":
            assert column.item is not None
            return pa.list_(arrow_type(column.item))
        case "null":
            return pa.null()
    return _TYPES[column.kind]


def schema_of(table: TableColumns) -> pa.Schema:
    """The schema of all parts. Columns of which only objects without fields are known are left out: Parquet cannot hold these."""
    return pa.schema([(name, arrow_type(column)) for name, column in table.columns.items() if column.kind != "null"])


def column_of(column: ColumnType, cells: Sequence[Any]) -> pa.Array:
    """The values, which the column holds, as an array."""
    kinds = set(map(type, cells))
    if kinds == {int} and column.kind == "int":
        return pa.array(np.fromiter(cells, np.int64, len(cells)))
    if kinds == {float} and column.kind == "float":
        return pa.array(np.fromiter(cells, np.float64, len(cells)))
    if column.kind in ("text", "bool", "int") and kinds <= {str, bool, int, type(None)}:
        return pa.array(cells, arrow_type(column))
    if column.kind == "decimal" and kinds <= {Decimal, type(None)}:
        return pa.array(cells, arrow_type(column))
    return pa.array(list(map(_nullable(column), cells)), arrow_type(column))


def _converter(column: ColumnType) -> Callable[[Any], Any]:
    match column.kind:
        case "decimal":
            return _decimal
        case "float":
            return lambda value: float(values.native(value))
        case "uuid":
            return lambda value: str(values.native(value))
        case "object":
            fields = {name: _nullable(field) for name, field in column.fields.items()}
            return lambda value: {name: convert(value.get(name)) for name, convert in fields.items()}
        case "list":
            assert column.item is not None
            item = _nullable(column.item)
            return lambda value: [item(element) for element in value]
    return values.native


def _nullable(column: ColumnType) -> Callable[[Any], Any]:
    """The converter of a value that may be null. Objects without fields are null where the column is none of objects."""
    convert, objects = _converter(column), column.kind == "object"
    return lambda value: None if value is None or (not objects and _nothing(value)) else convert(value)


def _nothing(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_nothing, value.values()))


def _decimal(value: Any) -> Decimal:
    number = values.native(value)
    return number if isinstance(number, Decimal) else Decimal(repr(number))
