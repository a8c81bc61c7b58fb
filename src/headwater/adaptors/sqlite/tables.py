"""Tables of a SQLite database as documents need them: names, columns, statements."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

from headwater.core.errors import BadConfig, DiskFull, HeadwaterError, ReadOnly, Timeout, Unavailable
from headwater.pipeline import values

RANGES = "headwater_ranges"
RUNS = "headwater_runs"
OWN = (RANGES, RUNS)
WAIT = 30.0  # seconds that somebody else's lock is waited for, where nothing else is said

MAKE = f"""
create table if not exists {RUNS} (pipeline text, sink text, epoch integer not null, primary key (pipeline, sink)) without rowid;
create table if not exists {RANGES} (
  pipeline text, sink text, start integer, stop integer, bucket integer, buckets integer,
  primary key (pipeline, sink, start, stop, bucket, buckets)
) without rowid;
"""


def connect(path: str, *, timeout: float = WAIT, read_only: bool = False) -> sqlite3.Connection:
    """A connection whose commits are synced. Errors: `Unavailable`, `Timeout`, `ReadOnly`."""
    try:
        if read_only:
            return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=timeout, isolation_level=None)
        db = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = full")
        db.execute("pragma wal_autocheckpoint = 16384")
    except sqlite3.Error as error:
        raise machine_error(error, path, waited=timeout) from error
    return db


def machine_error(error: sqlite3.Error, path: str, *, waited: float = WAIT) -> HeadwaterError:
    """What a failure of the database itself means: no message's fault. `waited`: seconds that a lock was waited for."""
    text, code = str(error), _code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Timeout(
            f"{path} was locked by somebody else for {waited:g} s.",
            hint="Look at who else writes to the database, or let the sink wait longer: save(..., timeout=).",
        )
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(f"No space left for {path}.", hint="Free some space; the pipeline goes on by itself.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return ReadOnly(f"{path} cannot be opened: {text}.", hint="Look at the path and its permissions.")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Unavailable(f"{path} is damaged: {text}.", hint="Let `pragma integrity_check` tell how, and put a sound copy in its place.")
    return Unavailable(f"{path} cannot be used: {text}.", hint="Look at who else uses the database.")


def is_machine_error(error: sqlite3.Error) -> bool:
    """Whether the database failed, rather than one of the rows.

    By the code, never by the words: those hold names, and a column may be called `locked`. An error without one is the client's own, of
    a value that it cannot give to SQLite.
    """
    code = _code(error)
    if code == sqlite3.SQLITE_ERROR:  # of a statement: the table does not fit the row, or what we keep for ourselves is gone
        return any(f"no such table: {name}" in str(error) for name in OWN)
    return code not in (sqlite3.SQLITE_OK, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF


def writable(path: str) -> str:
    """A line for `test`. Errors: `ReadOnly`."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise BadConfig(f"The folder {folder} of the database is not there.", hint="Make it first.")
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise ReadOnly(f"{path} cannot be written by this process.", hint="Change its permissions, or name another file.")
    return f"{path} can be written"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Tables:
    """The tables of one connection, made and widened within the transaction that needs it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._columns: dict[str, list[str]] = {}

    def forget(self) -> None:
        """After a rollback: what was made within it is gone."""
        self._columns.clear()

    def ready(self, table: str, ids: Sequence[str], names: Iterable[str]) -> list[str]:
        """The table's columns, having all of `names`. A new table's primary key is the id."""
        have, names = self._columns.get(table), list(names)
        if have is None or not set(names) <= set(have):  # another writer may have made the column since
            have = [row[1] for row in self._db.execute(f"pragma table_info({quoted(table)})")]
        if not have:
            have = list(dict.fromkeys([*ids, *names]))
            columns = ", ".join(quoted(name) for name in have)
            key = ", ".join(quoted(name) for name in ids)
            self._db.execute(f"create table {quoted(table)} ({columns}, primary key ({key}))")
        for name in names:
            if name not in have:
                self._db.execute(f"alter table {quoted(table)} add column {quoted(name)}")
                have = [*have, name]
        self._columns[table] = have
        return have

    def empty(self, table: str) -> None:
        if self.exists(table):
            self._db.execute(f"delete from {quoted(table)}")

    def exists(self, table: str) -> bool:
        found = self._db.execute("select 1 from sqlite_master where type = 'table' and name = ?", (table,)).fetchone()
        return found is not None


def upsert(table: str, columns: Sequence[str], ids: Sequence[str], every: Sequence[str]) -> str:
    """A row in place of the one with its id, if there is one; of `every` column, those not given become what they are by default."""
    names = ", ".join(quoted(name) for name in columns)
    places = ", ".join("?" * len(columns))
    others = [name for name in every if name not in ids]
    key = ", ".join(quoted(name) for name in ids)
    action = f"update set {', '.join(f'{quoted(one)} = excluded.{quoted(one)}' for one in others)}" if others else "nothing"
    return f"insert into {quoted(table)} ({names}) values ({places}) on conflict ({key}) do {action}"


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_STORED = frozenset({type(None), bool, int, float, str})


def cells(column: Sequence[Any]) -> Sequence[Any]:
    """`cell` for a column: itself where there is nothing to convert, which is seen quicker for all at once."""
    kinds = set(map(type, column))
    if kinds <= _STORED:
        numbers = column if kinds == {int} else [one for one in column if type(one) is int]
        if not numbers or (min(numbers) >= _LEAST and max(numbers) <= _MOST):
            return column
    return [cell(one) for one in column]


def cell(value: Any) -> Any:
    """A document's value as SQLite stores it: nested ones and truth values as JSON text and numbers, exact decimals as text."""
    if value is None or isinstance(value, int | float | str):
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            return str(value)
        return value
    value = values.native(value)
    if value != value:
        return "NaN"  # SQLite would make null of it
    if isinstance(value, bytes | int | float | str):
        return value
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return values.encode(value).decode()
