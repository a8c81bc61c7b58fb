"""What PostgreSQL's errors mean. The target itself runs against a real server in tests/services."""

from __future__ import annotations

import psycopg
import pytest

from headwater.journal.postgres_target import PostgresTarget
from headwater.journal.projection_target import AsyncCalls
from headwater.journal.sqlite_target import SqliteTarget


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (psycopg.errors.SerializationFailure(), True),
        (psycopg.errors.DeadlockDetected(), True),
        (psycopg.errors.LockNotAvailable(), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.UniqueViolation(), False),
        (psycopg.errors.UndefinedTable(), False),
        (ValueError(), False),
    ],
)
def test_which_errors_pass(error: Exception, passes: bool) -> None:
    assert PostgresTarget("t", "p", lambda: None, AsyncCalls()).transient(error) is passes


def test_both_databases_have_the_same_statements() -> None:
    assert set(PostgresTarget.statements) == {*SqliteTarget.statements, "lock_schema"}
    for name, text in SqliteTarget.statements.items():
        assert text.count("?") == PostgresTarget.statements[name].count("%s")
