"""One type for the columns of several batches: the type that all their documents would have in a single batch."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.pipeline.transforms.columns import EXACT, JSON, UNFIT, array_of, numbers_of, texts_of
from headwater.pipeline.values import natives


class Unusual(Exception):
    """Documents that Spark's tasks cannot take by their plan; the driver takes them. Users never see it.

    `columns`: the types of the documents, where a plan with wider types may take them.
    """

    def __init__(self, reason: str, columns: pa.Schema | None = None) -> None:
        super().__init__(reason)
        self.reason, self.columns = reason, columns


def both(left: pa.Schema, right: pa.Schema) -> pa.Schema | None:
    """The columns of the two, each in a type for both; None where a column has no such type."""
    fields = {field.name: field for field in left}
    for field in right:
        known = fields.get(field.name)
        if known is None:
            fields[field.name] = field
        elif is_json(known) or is_json(field):
            fields[field.name] = pa.field(field.name, pa.string(), metadata=JSON)
        elif (wide := _wider(known.type, field.type)) is not None:
            fields[field.name] = pa.field(field.name, wide)
        else:
            return None
    return pa.schema(list(fields.values()))


def mixes(wide: pa.Schema, narrow: pa.Schema) -> bool:
    """Whether a column that had a type would become JSON text. In the driver it would only in the batches that mix types."""
    return any(is_json(field) and field.name in narrow.names and not is_json(narrow.field(field.name)) for field in wide)


def is_json(field: pa.Field) -> bool:
    return JSON.keys() <= (field.metadata or {}).keys()


def fitted(values: Sequence[Any], field: pa.Field, digits: int) -> pa.Array:
    """The values in a column's type. Errors: `Unusual` where they, with those that it was found from, would have another."""
    if is_json(field):
        return texts_of(values)
    kind, array = field.type, array_of(values, digits)
    if array is not None and array.type.equals(kind):
        return array
    if array is not None and _number(array.type):
        rounds = pa.types.is_floating(kind) and pa.types.is_integer(array.type) and any(n and abs(n) > EXACT for n in array.to_pylist())
        if pa.types.is_decimal(kind) or rounds:  # integers that a float would round become decimals
            array = numbers_of(values, {Decimal}, digits)
    if array is None:
        raise Unusual(f"{field.name} is of several types")
    wide = _wider(kind, array.type)
    if wide is not None and wide.equals(kind):
        try:
            if pa.types.is_null(array.type):
                return pa.nulls(len(values), kind)
            return pa.array([natives(value) for value in values], kind) if pa.types.is_nested(kind) else array.cast(kind)
        except UNFIT:
            pass
    raise Unusual(f"{field.name} is {array.type}, not {kind}", pa.schema([pa.field(field.name, array.type)]))


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if _number(left) and _number(right):
        return _numeric(left, right)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        inner = both(pa.schema(list(left)), pa.schema(list(right)))
        return None if inner is None else pa.struct(list(inner))
    if pa.types.is_list(left) and pa.types.is_list(right):
        element = _wider(left.value_type, right.value_type)
        return None if element is None else pa.list_(element)
    return None


def _number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _numeric(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    exact = [kind for kind in (left, right) if pa.types.is_decimal(kind)]
    if not exact:
        return pa.float64()
    scale = max(kind.scale for kind in exact)
    precision = max(kind.precision - kind.scale for kind in exact) + scale
    return pa.decimal128(precision, scale) if precision <= 38 else None
