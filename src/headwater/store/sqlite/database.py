"""One SQLite file: transactions of one writer at a time, and snapshots for readers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, Damaged, Timeout, Unavailable
from headwater.core.files import Files, make_dirs
from headwater.core.files import explaining as explaining_files
from headwater.core.mutex import ProcessMutex
from headwater.store import Migration, Migrations, Row, Store, StoreEngine
from headwater.store.sqlite.library import apsw_errors, close_connection, connect, explained, explaining, prepare

if TYPE_CHECKING:
    import apsw

_MIGRATIONS = """
create table if not exists headwater_migration (
    part text not null,
    number integer not null,
    name text not null,
    checksum text not null,
    primary key (part, number)
) without rowid
"""
_IDLE = 8  # reading connections that are kept for later


class SqliteStatements:
    """The statements of a transaction. No cursor outlives it: an open one would keep old pages in the -wal file."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement; return its rows."""
        return self.connection.execute(statement, values).fetchall()

    def row(self, statement: str, values: Sequence[object] = ()) -> Row | None:
        """Run a statement; return its first row."""
        rows = self.connection.execute(statement, values).fetchall()
        return rows[0] if rows else None

    def many(self, statement: str, rows: Iterable[Sequence[object]]) -> list[Row]:
        """Run a statement once for each row of values; return the rows of all of them."""
        return self.connection.executemany(statement, rows).fetchall()


class SqliteSnapshot(SqliteStatements):
    """A transaction that reads, as a block. A class and not a generator: reading ten rows takes less time than three generators would."""

    def __init__(self, database: Database, timeout: float) -> None:
        self._database, self._timeout = database, timeout

    def __enter__(self) -> Self:
        self.connection = self._database.borrow_reader()
        try:
            self.connection.execute("begin")
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._end(error)
            return
        try:
            self.connection.execute("commit")
        except BaseException as failure:
            self._end(failure)
            raise
        self._database.return_reader(self.connection)

    def _end(self, error: BaseException) -> None:
        """Roll back, and raise an error of SQLite as one of ours."""
        ours = explained(error, self._database.path, timeout=self._timeout) if isinstance(error, apsw_errors()) else None
        if self._database.undone(self.connection, ours or error):
            self._database.return_reader(self.connection)
        if ours is not None:
            raise ours from error


class Database(Store):
    """A file that several threads and processes share.

    `synced=False` is for tables that can be rebuilt from the log and store their applied offset in the same transaction: a power cut may
    lose the last transactions, each whole. `secure`: bytes that are deleted are overwritten; those in the -wal file go with `checkpoint`.
    It may be used in a forked child: the child opens connections of its own.
    """

    engine: StoreEngine = "sqlite"

    def __init__(
        self,
        path: Path,
        *,
        synced: bool,
        secure: bool = False,
        timeout: float = 30.0,
        files: Files | None = None,
        clock: Clock | None = None,
        vfs: str | None = None,
    ) -> None:
        self.path, self._synced, self._secure, self._timeout, self._vfs = path, synced, secure, timeout, vfs
        self._files, self._clock = files or Files(), clock or SystemClock()
        self._closed = False
        self._writer: apsw.Connection | None = None
        self._idle: list[apsw.Connection] = []
        self._forget()
        _databases.add(self)
        with explaining_files(path):
            make_dirs(self._files, path.parent)
        with self._write_lock.held():
            self._writing()  # fail here rather than at the first write

    # -- transactions -----------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[SqliteStatements]:
        """A transaction that writes. It is durable once the block has ended, and undone when the block raises.

        `timeout`: how many seconds others may write before it begins, where that is not the database's own. Errors: `Timeout` when they
        write for longer, and those of `Store`.
        """
        timeout = self._timeout if timeout is None else timeout
        with self._write_lock.held(timeout):
            connection = self._writing()
            connection.set_busy_timeout(int(timeout * 1000))
            try:
                with explaining(self.path, timeout=timeout):
                    connection.execute("begin immediate")
                    yield SqliteStatements(connection)
                with explaining(self.path, timeout=timeout, committing=True):
                    connection.execute("commit")
            except BaseException as error:
                if not self.undone(connection, error):
                    self._writer = None
                raise

    def snapshot(self) -> SqliteSnapshot:
        """A transaction that reads: all of its statements see one moment. It waits for nobody, and nobody waits for it."""
        return SqliteSnapshot(self, self._timeout)

    def read_row(self, statement: str, values: Sequence[object] = ()) -> Row | None:
        """The first row of one statement that reads."""
        rows = self.read_rows(statement, values)
        return rows[0] if rows else None

    def read_rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """The rows of one statement that reads. A statement sees one moment by itself: this takes a third of a snapshot's time."""
        connection = self.borrow_reader()
        try:
            rows = connection.execute(statement, values).fetchall()
        except BaseException as error:
            ours = explained(error, self.path, timeout=self._timeout) if isinstance(error, apsw_errors()) else None
            if self.undone(connection, ours or error):
                self.return_reader(connection)
            if ours is not None:
                raise ours from error
            raise
        self.return_reader(connection)
        return rows

    def run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        with self.transaction() as transaction:
            return transaction.rows(statement, values)

    def checkpoint(self) -> None:
        """Bring everything from the -wal file into the file, synced: what is committed now survives a loss of power also when not `synced`.

        Errors: `Timeout` while a reader holds an old snapshot.
        """
        with self._write_lock.held(), explaining(self.path, timeout=self._timeout):
            connection = self._writing()
            connection.set_busy_timeout(int(self._timeout * 1000))
            busy, _, _ = connection.execute("pragma wal_checkpoint(truncate)").fetchall()[0]
            if busy:
                import apsw

                raise apsw.BusyError("a reader holds an old snapshot")

    # -- migrations -------------------------------------------------------------------------------------------

    def migrate(self, migrations: Migrations) -> list[Migration]:
        if not migrations.missing(self._noted(migrations.part), str(self.path)):
            return []
        applied: list[Migration] = []
        while True:
            # One transaction for each step, which notes it, too: a process that dies leaves a step whole or not begun.
            with self.transaction() as transaction:
                transaction.rows(_MIGRATIONS)
                missing = migrations.missing(_notes(transaction, migrations.part), str(self.path))  # another process may have been faster
                if not missing:
                    return applied
                step = missing[0]
                transaction.rows(step.text)
                transaction.rows(
                    "insert into headwater_migration values (?, ?, ?, ?)", (migrations.part, step.number, step.name, step.checksum)
                )
            applied.append(step)

    def applied(self, part: str) -> list[int]:
        return sorted(self._noted(part))

    def _noted(self, part: str) -> dict[int, str]:
        with self.snapshot() as snapshot:
            if snapshot.row("select 1 from sqlite_master where name = 'headwater_migration'") is None:
                return {}
            return _notes(snapshot, part)

    # -- connections ------------------------------------------------------------------------------------------

    def close(self) -> None:
        with self._guard:
            self._closed = True
            connections, self._idle = self._idle, []
        with self._write_lock.closing():
            if self._writer is not None:
                connections.append(self._writer)
                self._writer = None
            for connection in connections:
                close_connection(connection)

    def _forget(self) -> list[apsw.Connection]:
        """Begin without connections and locks; return the connections that there were."""
        connections = [*self._idle, *([self._writer] if self._writer is not None else [])]
        self._idle, self._writer, self._guard = [], None, threading.Lock()
        lock = self.path.with_name(self.path.name + ".lock")
        # Taken before SQLite's own lock, which writers poll: polling starves one of four writers for seconds.
        self._write_lock = ProcessMutex(lock, files=self._files, clock=self._clock, timeout=self._timeout)
        return connections

    def _writing(self) -> apsw.Connection:
        """The writing connection. Only the holder of the write lock may use it."""
        self._check()
        if self._writer is None:
            new = not self.path.exists()
            connection = connect(self.path, timeout=self._timeout, vfs=self._vfs)
            try:
                with explaining(self.path, timeout=self._timeout):
                    prepare(connection, synced=self._synced, secure=self._secure)
                if new:
                    with explaining_files(self.path):
                        self._files.sync_dir(self.path.parent)
            except BaseException:
                close_connection(connection)
                raise
            self._writer = connection
        return self._writer

    def borrow_reader(self) -> apsw.Connection:
        """A connection that reads, for one snapshot. Give it back."""
        with self._guard:
            self._check()
            if self._idle:
                return self._idle.pop()
        connection = connect(self.path, timeout=self._timeout, vfs=self._vfs)
        try:
            with explaining(self.path, timeout=self._timeout):
                connection.pragma("query_only", "on")
        except BaseException:
            close_connection(connection)
            raise
        return connection

    def return_reader(self, connection: apsw.Connection) -> None:
        """Keep a connection for the next snapshot."""
        with self._guard:
            if not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        close_connection(connection)

    def undone(self, connection: apsw.Connection, error: BaseException) -> bool:
        """Roll back; return whether the connection is reusable. After a disk error its cached pages may be wrong."""
        if not isinstance(error, Unavailable | Damaged) or isinstance(error, Timeout):
            try:
                if connection.in_transaction:
                    connection.execute("rollback")
                return True
            except apsw_errors():
                pass
        close_connection(connection)
        return False

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"{self.path} is closed.", hint="Open it again.")


def _notes(statements: SqliteStatements, part: str) -> dict[int, str]:
    return dict(statements.rows("select number, checksum from headwater_migration where part = ?", (part,)))


_databases: WeakSet[Database] = WeakSet()
_inherited: list[apsw.Connection] = []


def _forget_connections() -> None:
    """In a forked child: connections of the parent are neither used nor closed, because closing could remove the parent's -wal file."""
    for database in list(_databases):
        _inherited.extend(database._forget())


os.register_at_fork(after_in_child=_forget_connections)
