"""What every table of a database has, whatever the server: a name, columns, and the columns that tell its rows apart."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

COMMITTED = "headwater_committed"  # what a sink has taken
EPOCH = "headwater_epoch"  # the newest run that writes to a sink


class AnyColumn(Protocol):
    """What is asked of a column."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

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

    def column(self, name: str) -> Columns | None:
        return next((one for one in self.columns if one.name == name), None)

    def __str__(self) -> str:
        key = f"key ({', '.join(self.key)})" if self.key else "no primary key: one slice"
        return f"{self.namespace}: about {self.rows} rows, {key}"


def split_name(namespace: str, schema: str) -> tuple[str, str]:
    """A namespace's schema and table; without a schema, the usual one."""
    first, dot, rest = namespace.partition(".")
    return (first, rest) if dot and rest else (schema, namespace)
