"""Messages as rows of a MySQL table: the key, the values as PyMySQL takes them, and what is refused. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from headwater.core.errors import Rejected
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.systems.mysql.tables import Table

_AS_IT_IS = frozenset({int, str, bool, type(None)})
_NONE: frozenset[str] = frozenset()


class Shape:
    """How messages become rows of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._json = {column.name: column.kind == "json" for column in table.columns}
        self._generated = frozenset(column.name for column in table.columns if column.generated)
        self._writable = tuple(column.name for column in table.columns if not column.generated)
        self._defaults = frozenset(column.name for column in table.columns if column.default and not column.generated)
        self._names: dict[frozenset[str], tuple[str, ...]] = {}

    def names(self, absent: frozenset[str]) -> tuple[str, ...]:
        """The columns that a row is given for."""
        found = self._names.get(absent)
        if found is None:
            found = self._names[absent] = tuple(name for name in self._writable if name not in absent)
        return found

    def key(self, message: Message) -> tuple[str, ...]:
        table = self.table
        return table.key or next((names for names in table.unique if set(names) == set(message.id_fields)), ())

    def deleted(self, message: Message) -> tuple[tuple[str, ...], list[Any]]:
        """Key and its values of a delete. Errors: `Rejected` without a key."""
        key, data = self.key(message), message.data
        if not key or any(data.get(name) is None for name in key):
            raise Rejected(
                f"A delete without {', '.join(key) or 'a key'} cannot be done.", offset=message.offset, hint="Keep the fields of the key."
            )
        return key, [self._value(name, data[name], message) for name in key]

    def written(self, message: Message) -> tuple[tuple[str, ...], list[Any], frozenset[str]]:
        """Key, row (in the order of `names`), and the columns that get their default. No key: the row is added.

        Errors: `Rejected` for a field without a column, and for a document whose key lacks a value.
        """
        data = message.data
        for name in data:
            if name not in self._json:
                raise Rejected(
                    f"The table {self.table.namespace} has no column {name}.",
                    offset=message.offset,
                    hint=f'Add the column, or leave the field out: omit("{name}").',
                )
        absent = self._defaults.difference(data) if self._defaults else _NONE
        row = [self._value(name, data.get(name), message) for name in self.names(absent)]
        key = self.key(message)
        lacking = [name for name in key if data.get(name) is None]
        if key and not lacking:
            return key, row, absent
        if message.op == Op.UPDATE or message.id is not None or not set(key) <= absent:
            raise Rejected(
                f"The message lacks a value for {', '.join(lacking) or 'the key'}.",
                offset=message.offset,
                hint=f"The key of {self.table.namespace} is ({', '.join(key)}).",
            )
        return (), row, absent

    def _value(self, name: str, value: Any, message: Message) -> Any:
        if value is None:
            return None
        if self._json[name]:
            return values.encode(value).decode()
        if type(value) in _AS_IT_IS:
            return value
        match values.native(value):
            case datetime() as stamp:
                return stamp.astimezone(UTC).replace(tzinfo=None) if stamp.tzinfo else stamp
            case UUID() as one:
                return str(one)
            case float() | Decimal() as number:
                if not (number.is_finite() if isinstance(number, Decimal) else isfinite(number)):
                    raise Rejected(f"The field {name} is {number}, which MySQL cannot hold.", offset=message.offset)
                return number
            case dict() | list() as nested:
                return values.encode(nested).decode()
            case other:
                return other
