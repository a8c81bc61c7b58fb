"""Connections to a SQLite database: their errors as headwater's, and what a sink keeps there for itself."""

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
OWN = (RANGES, RUNS)
WAIT = 30.0  # seconds that somebody else's lock is waited for, where nothing else is said

_MINE = "pipeline = ? and sink = ?"
_EPOCH = f"select epoch from {RUNS} where {_MINE}"  # whoever writes holds the only lock there is
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
)
READ_NEAR = f"{STATEMENTS.read} and start <= ? and stop >= ?"  # given pipeline, sink, end and start: what overlaps or touches


class SqliteSession(Session):
    """One database file. Commits are synced."""

    server: ClassVar[str] = "SQLite"
    fails: tuple[type[Exception], ...] = (apsw.Error,)

    def __init__(self, path: str, *, timeout: float = WAIT) -> None:
        super().__init__(path)
        self._timeout = timeout
        self.db = connect(path, timeout=timeout)

    def ask(self, statement: str, given: Any = None) -> list[tuple[Any, ...]]:
        return self.db.execute(statement, given or ()).fetchall()

    def do(self, statement: str | bytes, given: Any = None) -> int:
        self.db.execute(statement if isinstance(statement, str) else statement.decode(), given or ())
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

    def about_data(self, error: BaseException) -> bool:
        return isinstance(error, apsw.Error) and not is_machine_error(error)

    def there_already(self, error: BaseException) -> bool:
        return False  # the statements themselves allow for it

    def meaning(self, error: BaseException) -> HeadwaterError:
        assert isinstance(error, apsw.Error)
        return machine_error(error, self.where, waited=self._timeout)

    def said(self, error: BaseException) -> str:
        return str(error)

    def fileno(self) -> int:
        raise NotImplementedError("A file has no connection that could be cut.")

    def close(self) -> None:
        close_connection(self.db)


def connect(path: str, *, timeout: float = WAIT, read_only: bool = False) -> apsw.Connection:
    """A connection whose commits are synced. It is for one thread. Errors: `Unavailable`, `Timeout`, `ReadOnly`."""
    try:
        db = open_file(path, timeout=timeout, read_only=read_only)
        try:
            if not read_only:
                # The store's own files have more settings. Foreign keys of a user's tables stay unchecked: rows come in any order.
                db.pragma("journal_mode", "wal")
                db.pragma("synchronous", "full")
                db.pragma("wal_autocheckpoint", 16_384)
        except BaseException:
            close_connection(db)
            raise
    except apsw.Error as error:
        raise machine_error(error, path, waited=timeout) from error
    return db


def machine_error(error: apsw.Error, path: str, *, waited: float = WAIT) -> HeadwaterError:
    """What a failure of the database itself means: no message's fault. `waited`: seconds that a lock was waited for."""
    text, code = str(error), _code(error)
    if code in (apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED):
        return Timeout(
            f"{path} was locked by somebody else for {waited:g} s.",
            hint="Look at who else writes to the database, or let the sink wait longer: save(..., timeout=).",
        )
    if code == apsw.SQLITE_FULL:
        return DiskFull(f"No space left for {path}.", hint="Free some space; the pipeline goes on by itself.")
    if code in (apsw.SQLITE_READONLY, apsw.SQLITE_CANTOPEN, apsw.SQLITE_PERM):
        return ReadOnly(f"{path} cannot be opened: {text}.", hint="Look at the path and its permissions.")
    if code in (apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB):
        return Unavailable(f"{path} is damaged: {text}.", hint="Let `pragma integrity_check` tell how, and put a sound copy in its place.")
    return Unavailable(f"{path} cannot be used: {text}.", hint="Look at who else uses the database.")


def is_machine_error(error: apsw.Error) -> bool:
    """Whether the database failed, rather than one of the rows.

    By the code, never by the words: those hold names, and a column may be called `locked`. An error without one is the library's own, of
    a connection that is closed or in use: no row's fault.
    """
    code = _code(error)
    if code == apsw.SQLITE_ERROR:  # of a statement: the table does not fit the row, or what we keep for ourselves is gone
        return any(f"no such table: {name}" in str(error) for name in OWN)
    return code not in (apsw.SQLITE_CONSTRAINT, apsw.SQLITE_MISMATCH, apsw.SQLITE_TOOBIG, apsw.SQLITE_RANGE)


def _code(error: apsw.Error) -> int | None:
    return getattr(error, "result", None)  # apsw sets it where SQLite has answered with a code
