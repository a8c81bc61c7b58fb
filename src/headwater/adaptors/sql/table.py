"""A table of a database, the same for every server: its name, its columns, and the columns that identify its rows."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import msgspec

COMMITTED = "headwater_committed"  # what a sink has taken
EPOCH = "headwater_epoch"  # the newest run that writes to a sink
OWNER = "headwater_owner"  # the log whose runs write to a sink


class AnyColumn(Protocol):
    """A column."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def declared(self) -> str:
        """Its type as in CREATE TABLE."""
        ...

    @property
    def default(self) -> bool: ...

    @property
    def generated(self) -> bool:
        """Made by the server: cannot be written."""
        ...


Columns = TypeVar("Columns", bound=AnyColumn, covariant=True)


class SqlTable(msgspec.Struct, Generic[Columns], frozen=True, kw_only=True):
    schema: str
    name: str
    columns: tuple[Columns, ...]
    key: tuple[str, ...] = ()  # the primary key's columns
    unique: tuple[tuple[str, ...], ...] = ()  # the columns of unique indexes that hold for every row, the key's among them
    rows: int = 0  # about

    @property
    def namespace(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def mark(self) -> Any:
        """The table's identity in a stored plan: its name, where the server gives no id that another table of the name would not have."""
        return self.namespace

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns that identify the row of a change. Empty: its changes cannot be followed."""
        return self.key

    def column(self, name: str) -> Columns | None:
        return next((column for column in self.columns if column.name == name), None)

    def __str__(self) -> str:
        key = f"key ({', '.join(self.key)})" if self.key else "no primary key: one slice"
        return f"{self.namespace}: about {self.rows} rows, {key}"


def quote(name: str) -> str:
    """A name in a statement, as standard SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def safe(name: str) -> str:
    """A name in a statement with placeholders: a driver takes `%` for one."""
    return name.replace("%", "%%")


def split_name(namespace: str, schema: str) -> tuple[str, str]:
    """A namespace's schema and table; without a schema, the given one."""
    first, dot, rest = namespace.partition(".")
    return (first, rest) if dot and rest else (schema, namespace)
