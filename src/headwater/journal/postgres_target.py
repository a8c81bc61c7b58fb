"""A projection's positions in the PostgreSQL database of its handler, through a connection of `psycopg`, blocking or asyncio."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from headwater.journal.projection_records import Keeps
from headwater.journal.projection_target import SqlTarget
from headwater.store.statements import read_statements

_TRANSIENT = ("40", "53", "55P03", "57P", "08")  # SQLSTATE: serialization and deadlock, resources, lock, shutdown, connection


class PostgresTarget(SqlTarget):
    """One connection. Rows that a stopped process has locked stay so until it goes on or its server ends it."""

    keeps: ClassVar[Keeps] = "postgresql"
    statements = read_statements(Path(__file__).with_name("projection_postgres.sql"))

    def _begin(self, connection: Any) -> None:
        if connection.autocommit:
            self._calls(connection.execute("BEGIN"))

    def _finish(self, connection: Any, *, commit: bool) -> None:
        self._calls(connection.commit() if commit else connection.rollback())

    def _broken(self, connection: Any) -> bool:
        return bool(connection.closed)

    def _savepoint_lost(self, error: BaseException) -> bool:
        return getattr(error, "sqlstate", None) in ("3B001", "25P01")

    def _aborted(self, error: BaseException | None) -> bool:
        return getattr(error, "sqlstate", None) == "25P02"

    def transient(self, error: BaseException) -> bool:
        state = getattr(error, "sqlstate", None) or ""
        return state.startswith(_TRANSIENT)
