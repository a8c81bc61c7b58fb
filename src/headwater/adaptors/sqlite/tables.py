"""Tables of a SQLite database: created, and given columns, as they are decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import apsw

from headwater.adaptors.sql.table import quote
from headwater.adaptors.sqlite.columns import declared
from headwater.pipeline.columns import ColumnType


class Tables:
    """The tables of one connection, created and widened within the open transaction."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._columns: dict[str, list[str]] = {}
        self._spelled: dict[str, str] = {}

    def forget(self) -> None:
        """Call it after a rollback: what the transaction created is gone."""
        self._columns.clear()
        self._spelled.clear()

    def spelling(self, table: str) -> str:
        """The name that the table really has: SQLite ignores the case of letters. The given name where there is no such table."""
        if table not in self._spelled:
            rows = self._db.execute("select name from sqlite_master where type = 'table' and name = ? collate nocase", (table,)).fetchall()
            if not rows:
                return table
            self._spelled[table] = str(rows[0][0])
        return self._spelled[table]

    def columns(self, table: str) -> list[str]:
        """The columns of a table as they were when it was last looked at; none where it does not exist."""
        if table not in self._columns:
            have = [row[1] for row in self._db.execute(f"pragma table_info({quote(table)})")]
            if not have:
                return []
            self._columns[table] = have
        return self._columns[table]

    def ready(self, table: str, ids: Sequence[str], names: Iterable[str], types: Mapping[str, ColumnType]) -> list[str]:
        """Create the table and the columns of `names` where they are missing; return its columns. A new table's primary key is the id."""
        have, names = self._columns.get(table), list(names)
        if have is None or not set(names) <= set(have):  # another writer may have added the column since
            have = [row[1] for row in self._db.execute(f"pragma table_info({quote(table)})")]
        if not have:
            have = list(dict.fromkeys([*ids, *names]))
            columns = ", ".join(_column(name, types) for name in have)
            key = ", ".join(quote(name) for name in ids)
            self._db.execute(f"create table {quote(table)} ({columns}, primary key ({key}))")
        for name in names:
            if name not in have:
                self._db.execute(f"alter table {quote(table)} add column {_column(name, types)}")
                have = [*have, name]
        self._columns[table] = have
        return have

    def empty(self, table: str) -> None:
        if self.exists(table):
            self._db.execute(f"delete from {quote(table)}")

    def exists(self, table: str) -> bool:
        return bool(self._db.execute("select 1 from sqlite_master where type = 'table' and name = ?", (table,)).fetchall())


def _column(name: str, types: Mapping[str, ColumnType]) -> str:
    return f"{quote(name)} {declared(types.get(name))}".rstrip()


def upsert(table: str, columns: Sequence[str], ids: Sequence[str], every: Sequence[str]) -> str:
    """A statement that replaces the row with an id or inserts it. Of `every` column, those not given get their default."""
    names = ", ".join(quote(name) for name in columns)
    places = ", ".join("?" * len(columns))
    updated = [name for name in every if name not in ids]
    key = ", ".join(quote(name) for name in ids)
    action = f"update set {', '.join(f'{quote(name)} = excluded.{quote(name)}' for name in updated)}" if updated else "nothing"
    return f"insert into {quote(table)} ({names}) values ({places}) on conflict ({key}) do {action}"
