"""Messages as rows of a table: the key, the values as PostgreSQL takes them, and what is refused. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from headwater.core.errors import Rejected
from headwater.pipeline import values
from headwater.pipeline.adaptors.postgres_tables import Column, Table
from headwater.pipeline.message import Message, Op


def row_of(one: Table, message: Message) -> tuple[tuple[str, ...], dict[str, Any], frozenset[str]]:
    """The key that is written by, the row as PostgreSQL's own JSON, and the columns that get their default.

    Errors: `Rejected` for a field without a column, and for a change of a document without a key.
    """
    data = message.data
    key = one.key or next((names for names in one.unique if set(names) == set(message.id_fields)), ())
    has_key = bool(key) and all(data.get(name) is not None for name in key)
    if message.op == Op.DELETE:
        if not has_key:
            raise Rejected(
                f"A delete without {', '.join(key) or 'a key'} cannot be done.", offset=message.offset, hint="Keep the key's fields."
            )
        return key, {name: _plain(_column(one, name, message), data[name]) for name in key}, frozenset()
    row = {name: _plain(_column(one, name, message), value) for name, value in data.items()}
    absent = frozenset(column.name for column in one.columns if column.default and not column.generated and column.name not in data)
    if not has_key:
        if message.op == Op.UPDATE or message.id is not None or (key and not set(key) <= absent):
            raise Rejected(
                f"The message lacks a value for {', '.join(name for name in key if data.get(name) is None) or 'the key'}.",
                offset=message.offset,
                hint=f"The key of {one.namespace} is ({', '.join(key)}).",
            )
        return (), row, absent
    return key, row, absent


def _column(one: Table, name: str, message: Message) -> Column:
    column = one.column(name)
    if column is None:
        raise Rejected(
            f"The table {one.namespace} has no column {name}.",
            offset=message.offset,
            hint=f'Add the column, or leave the field out: omit("{name}").',
        )
    return column


def _plain(column: Column, value: Any) -> Any:
    """A value as `json_populate_recordset` takes it for the column."""
    if column.kind == "json" or value is None:
        return value
    if isinstance(value, list):
        return [_plain(column, one) for one in value]
    match values.native(value):
        case datetime() as stamp:
            return (stamp.astimezone(UTC) if stamp.tzinfo else stamp).isoformat()
        case bytes() as data:
            return f"\\x{data.hex()}"
        case UUID() as one:
            return str(one)
        case float() as number:
            return number if isfinite(number) else str(number)
        case Decimal() as number:
            return number if number.is_finite() else str(number)
        case other:
            return other
