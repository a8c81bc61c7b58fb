"""Connections to a SQLite database, its errors as headwater's, and the tables in which a sink keeps what it has taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import apsw

from headwater.adaptors.sql.session import Session
from headwater.adaptors.sql.statements import Statements
from headwater.core.errors import DiskFull, HeadwaterError, ReadOnly, Timeout, Unavailable
from headwater.store.sqlite.library import close_connection, open_file

RANGES = "headwater_ranges"
RUNS = "headwater_runs"
OWNERS = "headwater_owners"
OWN = (RANGES, RUNS, OWNERS)
WAIT = 30.0  # seconds to wait for a lock by default

_MINE = "pipeline = ? and sink = ?"
_EPOCH = f"select epoch from {RUNS} where {_MINE}"  # a writer holds the only lock of the file
_OWNER = f"select note from {OWNERS} where {_MINE}"
STATEMENTS = Statements(
    there=f"select 1 from sqlite_master where name = '{RANGES}'",
    create=(
        f"create table if not exists {RUNS} (pipeline text, sink text, epoch integer not null, primary key (pipeline, sink)) without rowid",
        f"create table if not exists {RANGES} (pipeline text, sink text, start integer, stop integer, bucket integer, buckets integer, "
        "primary key (pipeline, sink, start, stop, bucket, buckets)) without rowid",
    ),
    share_epoch=_EPOCH,
    lock_epoch=_EPOCH,
    first_epoch=f"insert or ignore into {RUNS} values (?, ?, ?)",
    set_epoch=f"update {RUNS} set epoch = ? where {_MINE}",
    read=f"select start, stop, bucket, buckets from {RANGES} where {_MINE}",
    count=f"select count(*) from {RANGES} where {_MINE}",
    take=f"insert or ignore into {RANGES} values (?, ?, ?, ?, ?, ?)",
    untake=f"delete from {RANGES} where {_MINE} and start = ? and stop = ? and bucket = ? and buckets = ?",
    clear=f"delete from {RANGES} where {_MINE}",
    owners_there=f"select 1 from sqlite_master where name = '{OWNERS}'",
    create_owners=f"create table if not exists {OWNERS} (pipeline text, sink text, note text, primary key (pipeline, sink)) without rowid",
    first_owner=f"insert or ignore into {OWNERS} values (?, ?, '')",
    read_owner=_OWNER,
    lock_owner=_OWNER,
    set_owner=f"update {OWNERS} set note = ? where {_MINE}",
)
READ_NEAR = f"{STATEMENTS.read} and start <= ? and stop >= ?"  # parameters: pipeline, sink, end, start; the spans that overlap or touch


class SqliteSession(Session):
    """One database file, for one thread. Commits are synced. Errors: `Unavailable`, `Timeout`, `ReadOnly`."""

    server: ClassVar[str] = "SQLite"
    fails: ClassVar[tuple[type[Exception], ...]] = (apsw.Error,)

    def __init__(self, path: str, *, timeout: float = WAIT, read_only: bool = False) -> None:
        super().__init__(path)
        self._timeout = timeout
        try:
            self.db = open_file(path, timeout=timeout, read_only=read_only)
            try:
                if not read_only:
                    # The store's own files have more settings. Foreign keys of a user's tables stay unchecked: rows come in any order.
                    self.db.pragma("journal_mode", "wal")
                    self.db.pragma("synchronous", "full")
                    self.db.pragma("wal_autocheckpoint", 16_384)
            except BaseException:
                self.close()
                raise
        except apsw.Error as error:
            raise self.meaning(error) from error

    def ask(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        return self.db.execute(statement, parameters or ()).fetchall()

    def do(self, statement: str | bytes, parameters: Any = None) -> int:
        self.db.execute(statement if isinstance(statement, str) else statement.decode(), parameters or ())
        return self.db.changes()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.db.execute("begin immediate")
        try:
            yield
            self.db.execute("commit")
        finally:
            if self.db.in_transaction:
                self.db.execute("rollback")

    def there_already(self, error: BaseException) -> bool:
        return False  # the statements say `if not exists`

    def meaning(self, error: BaseException) -> HeadwaterError:
        return self.explained(error, self.where, waited=self._timeout)

    def said(self, error: BaseException) -> str:
        return str(error)

    def fileno(self) -> int:
        raise NotImplementedError("A database file has no socket.")

    def close(self) -> None:
        close_connection(self.db)

    @staticmethod
    def about_data(error: BaseException) -> bool:
        """By the code, never by the text: it holds names, and a column may be called `locked`. An error without a code is apsw's own, about
        a connection that is closed or in use."""
        code = _code(error)
        if code == apsw.SQLITE_ERROR:  # of a statement: the table does not fit the row, or the sink's own tables are gone
            return not any(f"no such table: {name}" in str(error) for name in OWN)
        return code in (apsw.SQLITE_CONSTRAINT, apsw.SQLITE_MISMATCH, apsw.SQLITE_TOOBIG, apsw.SQLITE_RANGE)

    @staticmethod
    def explained(error: Any, where: object, *, waited: float = WAIT) -> HeadwaterError:
        """`waited`: the seconds of waiting for a lock."""
        code = _code(error)
        if code in (apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED):
            return Timeout(
                f"{where} was locked by another program for {waited:g} s.",
                hint="Look at who else writes to the database, or let the sink wait longer: save(..., timeout=).",
            )
        if code == apsw.SQLITE_FULL:
            return DiskFull(f"No space left for {where}.", hint="Free some space; the pipeline goes on by itself.")
        if code in (apsw.SQLITE_READONLY, apsw.SQLITE_CANTOPEN, apsw.SQLITE_PERM):
            return ReadOnly(f"{where} cannot be opened: {error}.", hint="Look at the path and its permissions.")
        if code in (apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB):
            return Unavailable(
                f"{where} is damaged: {error}.", hint="Run `pragma integrity_check` on it, then put an undamaged copy in its place."
            )
        return Unavailable(f"{where} cannot be used: {error}.", hint="Look at who else uses the database.")


def _code(error: Any) -> int | None:
    return getattr(error, "result", None)  # apsw sets it where SQLite has answered with a code
