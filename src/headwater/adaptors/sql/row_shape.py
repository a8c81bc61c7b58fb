"""Conversion of messages to rows of a table: the key, the values, and what is refused. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from headwater.adaptors.sql.column_limits import Keeps
from headwater.adaptors.sql.table import AnyColumn, SqlTable
from headwater.core.errors import Rejected
from headwater.pipeline import values
from headwater.pipeline.long_integer import Long
from headwater.pipeline.message import Message, Op

Row = dict[str, Any]
AnyTable = TypeVar("AnyTable", bound=SqlTable[AnyColumn], covariant=True)
AS_IT_IS = frozenset({int, str, bool, type(None)})
SHOWN = 100  # letters of a value in an error
_NONE: frozenset[str] = frozenset()


class RowShape(ABC, Generic[AnyTable]):
    """Converts messages to rows of one table."""

    rounded: ClassVar[frozenset[str]] = frozenset()  # kinds of columns for which the server rounds numbers in text

    def __init__(self, table: AnyTable) -> None:
        self.table = table
        self._kinds = {column.name: column.kind for column in table.columns}
        self._limits = self.limits()
        self.drops_nulls = False  # whether a field that is null needs no column
        self._defaults = frozenset(column.name for column in table.columns if column.default and not column.generated)

    @abstractmethod
    def json(self, value: Any) -> Any:
        """A value for a column of JSON."""

    @abstractmethod
    def plain(self, value: Any, kind: str) -> Any:
        """A value, other than an integer, for a column of any other kind; text only for `rounded` columns.

        Errors: `ValueError` with the reason.
        """

    @abstractmethod
    def limits(self) -> Mapping[str, Keeps]:
        """The columns that the server would change values for, each with the test of what it keeps."""

    def key(self, message: Message) -> tuple[str, ...]:
        """The columns that identify a message's row: the primary key, or a unique index on the fields of its id."""
        table = self.table
        return table.key or next((names for names in table.unique if set(names) == set(message.id_fields)), ())

    def deleted(self, message: Message) -> tuple[tuple[str, ...], Row]:
        """The key and the row of a delete. Errors: `Rejected` without a key."""
        key, data = self.key(message), message.data
        if not key or any(data.get(name) is None for name in key):
            raise Rejected(
                f"A delete without {', '.join(key) or 'a key'} cannot be done.", offset=message.offset, hint="Keep the key's fields."
            )
        return key, self._row({name: data[name] for name in key}, message)

    def written(self, message: Message) -> tuple[tuple[str, ...], Row, frozenset[str]]:
        """The key, the row, and the columns that get their default. Without a key the row is inserted.

        Errors: `Rejected` for a field without a column, and for a document whose key lacks a value.
        """
        data = message.data
        row = self._row(data, message)
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

    def _row(self, data: Row, message: Message) -> Row:
        kinds, limits = self._kinds, self._limits
        row: Row = {}
        for name, value in data.items():
            kind = kinds.get(name)
            if kind is None:
                if value is None and self.drops_nulls:
                    continue
                raise Rejected(
                    f"The table {self.table.namespace} has no column {name}.",
                    offset=message.offset,
                    hint=f'Add the column, or leave the field out: omit("{name}").',
                )
            if type(value) is Long:
                value = int(value)
            if name in limits and value is not None and not limits[name](value):
                raise self._changed(name, value, message)
            if kind == "json":
                row[name] = self.json(value)
            elif type(value) in AS_IT_IS and not (type(value) is str and kind in self.rounded):
                row[name] = value
            else:
                try:
                    row[name] = self.plain(value, kind)
                except ValueError as error:
                    raise Rejected(f"The field {name} is {error}.", offset=message.offset) from None
        return row

    def _changed(self, name: str, value: Any, message: Message) -> Rejected:
        column = self.table.column(name)
        shown = values.encode(value).decode()
        return Rejected(
            f"The column {name} of {self.table.namespace}, {column.declared if column else ''}, would change the value "
            f"{shown if len(shown) <= SHOWN else shown[:SHOWN] + '…'}.",
            offset=message.offset,
            hint="Change the column's type, or the value with a transform: the server would round it, or cut it, without an error.",
        )
