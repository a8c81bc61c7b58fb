"""Messages as rows of a table: the key, the values as PostgreSQL takes them, and what is refused. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from headwater.core.errors import Rejected
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.systems.postgres.tables import Table

_AS_IT_IS = frozenset({int, str, bool, type(None)})
_NONE: frozenset[str] = frozenset()


class Shape:
    """How messages become rows of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._json = {column.name: column.kind == "json" for column in table.columns}
        self._defaults = frozenset(column.name for column in table.columns if column.default and not column.generated)

    def key(self, message: Message) -> tuple[str, ...]:
        """The columns that a message's row is found by: the primary key, or a unique index on the fields of its id."""
        table = self.table
        return table.key or next((names for names in table.unique if set(names) == set(message.id_fields)), ())

    def deleted(self, message: Message) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Key and row of a delete. Errors: `Rejected` without a key."""
        key, data = self.key(message), message.data
        if not key or any(data.get(name) is None for name in key):
            raise Rejected(
                f"A delete without {', '.join(key) or 'a key'} cannot be done.", offset=message.offset, hint="Keep the key's fields."
            )
        return key, {name: _plain(data[name]) for name in key}

    def written(self, message: Message) -> tuple[tuple[str, ...], dict[str, Any], frozenset[str]]:
        """Key, row, and the columns that get their default. No key: the row is added.

        Errors: `Rejected` for a field without a column, and for a document whose key lacks a value.
        """
        data, known = message.data, self._json
        row: dict[str, Any] = {}
        for name, value in data.items():
            as_json = known.get(name)
            if as_json is None:
                raise Rejected(
                    f"The table {self.table.namespace} has no column {name}.",
                    offset=message.offset,
                    hint=f'Add the column, or leave the field out: omit("{name}").',
                )
            row[name] = value if as_json or type(value) in _AS_IT_IS else _plain(value)
        absent = self._defaults.difference(data) if self._defaults else _NONE
        key = self.key(message)
        lacking = [name for name in key if data.get(name) is None]
        if not lacking and key:
            return key, row, absent
        if message.op == Op.UPDATE or message.id is not None or not set(key) <= absent:
            raise Rejected(
                f"The message lacks a value for {', '.join(lacking) or 'the key'}.",
                offset=message.offset,
                hint=f"The key of {self.table.namespace} is ({', '.join(key)}).",
            )
        return (), row, absent


def _plain(value: Any) -> Any:
    """A value as `json_populate_recordset` takes it for a column that is not JSON itself."""
    if isinstance(value, list):
        return [one if type(one) in _AS_IT_IS else _plain(one) for one in value]
    if isinstance(value, dict) and len(value) == 1 and isinstance(text := value.get("$date"), str):
        return text  # PostgreSQL reads it itself, whatever its year is
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
