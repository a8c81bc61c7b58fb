"""A projection's positions in the SQLite database of its handler, through a connection of `sqlite3` or `apsw`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from headwater.journal.projection_records import Keeps
from headwater.journal.projection_target import SqlTarget
from headwater.store.statements import read_statements

_BUSY = "PRAGMA busy_timeout = 5000"  # milliseconds
_TRANSIENT = ("locked", "busy")


class SqliteTarget(SqlTarget):
    """One connection. A process that is stopped inside a transaction holds the database's only lock for writing: others wait for it."""

    keeps: ClassVar[Keeps] = "sqlite"
    statements = read_statements(Path(__file__).with_name("projection_sqlite.sql"))

    def _prepare(self, connection: Any) -> None:
        ((patience,),) = list(connection.execute("PRAGMA busy_timeout"))
        if not patience:
            connection.execute(_BUSY).fetchall()

    def _begin(self, connection: Any) -> None:
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")

    def _finish(self, connection: Any, *, commit: bool) -> None:
        if hasattr(connection, "commit"):  # of sqlite3, which keeps count of its transactions
            connection.commit() if commit else connection.rollback()
        elif commit or connection.in_transaction:
            connection.execute("COMMIT" if commit else "ROLLBACK")

    def _savepoint_lost(self, error: BaseException) -> bool:
        return "no such savepoint" in str(error)

    def transient(self, error: BaseException) -> bool:
        names = {kind.__name__ for kind in type(error).__mro__}
        return bool(names & {"BusyError", "LockedError"}) or (
            "OperationalError" in names and any(word in str(error) for word in _TRANSIENT)
        )
