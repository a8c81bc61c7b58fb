"""Tables of a SQLite database: created and widened as documents need them, and the conversion of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import apsw

from headwater.adaptors.sql.table import quote
from headwater.pipeline import values


class Tables:
    """The tables of one connection, created and widened within the open transaction."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._columns: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Call it after a rollback: what the transaction created is gone."""
        self._columns.clear()

    def ready(self, table: str, ids: Sequence[str], names: Iterable[str]) -> list[str]:
        """Create the table and the columns of `names` where they are missing; return its columns. A new table's primary key is the id."""
        have, names = self._columns.get(table), list(names)
        if have is None or not set(names) <= set(have):  # another writer may have added the column since
            have = [row[1] for row in self._db.execute(f"pragma table_info({quote(table)})")]
        if not have:
            have = list(dict.fromkeys([*ids, *names]))
            columns = ", ".join(quote(name) for name in have)
            key = ", ".join(quote(name) for name in ids)
            self._db.execute(f"create table {quote(table)} ({columns}, primary key ({key}))")
        for name in names:
            if name not in have:
                self._db.execute(f"alter table {quote(table)} add column {quote(name)}")
                have = [*have, name]
        self._columns[table] = have
        return have

    def empty(self, table: str) -> None:
        if self.exists(table):
            self._db.execute(f"delete from {quote(table)}")

    def exists(self, table: str) -> bool:
        return bool(self._db.execute("select 1 from sqlite_master where type = 'table' and name = ?", (table,)).fetchall())


def upsert(table: str, columns: Sequence[str], ids: Sequence[str], every: Sequence[str]) -> str:
    """A statement that replaces the row with an id or inserts it. Of `every` column, those not given get their default."""
    names = ", ".join(quote(name) for name in columns)
    places = ", ".join("?" * len(columns))
    others = [name for name in every if name not in ids]
    key = ", ".join(quote(name) for name in ids)
    action = f"update set {', '.join(f'{quote(one)} = excluded.{quote(one)}' for one in others)}" if others else "nothing"
    return f"insert into {quote(table)} ({names}) values ({places}) on conflict ({key}) do {action}"


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_STORED = frozenset({type(None), bool, int, float, str})


def cells(column: Sequence[Any]) -> Sequence[Any]:
    """`cell` for a column; the column itself where nothing is to convert, which is quicker to see for all at once."""
    kinds = set(map(type, column))
    if kinds <= _STORED:
        numbers = column if kinds == {int} else [one for one in column if type(one) is int]
        if not numbers or (min(numbers) >= _LEAST and max(numbers) <= _MOST):
            return column
    return [cell(one) for one in column]


def cell(value: Any) -> Any:
    """A document's value as SQLite stores it: objects and lists as JSON text, booleans as numbers, exact decimals as text."""
    if value is None or isinstance(value, int | float | str):
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            return str(value)
        return int(value) if isinstance(value, bool) else value
    value = values.native(value)
    if value != value:
        return "NaN"  # SQLite would store null
    if isinstance(value, bytes | int | float | str):
        return value
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return values.encode(value).decode()
