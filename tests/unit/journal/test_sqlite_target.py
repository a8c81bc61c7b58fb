"""Positions in SQLite, through both libraries, and what goes wrong there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.journal.projection_records import DeadEvent
from headwater.journal.projection_target import AsyncCalls, HandlerFailed, TargetUnavailable
from headwater.journal.sqlite_target import SqliteTarget

CONNECTS: list[Callable[[str], Any]] = [
    lambda path: sqlite3.connect(path, timeout=0.01),
    lambda path: sqlite3.connect(path, timeout=0.01, isolation_level=None),
    apsw.Connection,
]


@pytest.fixture(params=CONNECTS, ids=["sqlite3", "sqlite3-autocommit", "apsw"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    def connect() -> Any:
        return request.param(str(tmp_path / "x.db"))

    made = SqliteTarget("t", "p", connect, AsyncCalls())
    connection = connect()
    made.open(connection)
    connection.execute("CREATE TABLE seen (n INTEGER)")
    if hasattr(connection, "commit"):
        connection.commit()
    return made


def rows(target: Any) -> list[int]:
    return [row[0] for row in target._opened().execute("SELECT n FROM seen")]


def test_work_and_position_are_one(target: Any) -> None:
    state, _ = target.take(0, "g")
    target.apply(msgspec.structs.replace(state, place="1"), lambda connection: connection.execute("INSERT INTO seen VALUES (1)"))

    def fails(connection: Any) -> None:
        connection.execute("INSERT INTO seen VALUES (2)")
        raise ValueError

    with pytest.raises(HandlerFailed):
        target.apply(msgspec.structs.replace(state, place="2"), fails)
    assert (rows(target), target.take(0, "g")[0].place) == ([1], "1")


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_a_handler_that_ends_the_transaction_is_refused(target: Any, ends: str) -> None:
    state, _ = target.take(0, "g")

    def work(connection: Any) -> None:
        connection.execute(ends)
        connection.execute("BEGIN")

    with pytest.raises(BadInput, match="has ended the transaction"):
        target.apply(msgspec.structs.replace(state, place="1"), work)
    assert target.take(0, "g")[0].place == ""


def test_a_locked_database_is_tried_again(target: Any) -> None:
    state, _ = target.take(0, "g")
    target._opened().execute("PRAGMA busy_timeout = 1")
    other = target._connect()  # of the same library: two in one process do not see each other's locks
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TargetUnavailable, match=r"(?i)locked|busy"):
        target.apply(state)
    other.execute("ROLLBACK")
    other.close()
    target.apply(state)


def test_which_errors_pass(target: Any) -> None:
    assert target.transient(sqlite3.OperationalError("database is locked"))
    assert target.transient(apsw.BusyError("x"))
    assert not target.transient(sqlite3.OperationalError("no such table: x"))
    assert not target.transient(ValueError("locked"))


def test_a_connection_that_was_closed_is_opened_again(target: Any) -> None:
    state, _ = target.take(0, "g")
    target._opened().close()
    with pytest.raises(TargetUnavailable):
        target.apply(state)
    assert target.take(0, "g")[0].epoch == state.epoch + 1


@pytest.mark.parametrize("id", ["a", "a\0b", '"a"', "ä 😀"])
def test_any_id_can_be_dead(target: Any, id: str) -> None:
    state, _ = target.take(0, "g")
    dead = DeadEvent(offset=1, number=1, id=id, error="x")
    target.apply(state, parked=[dead])
    assert target.take(0, "g")[1] == [dead]


def test_a_constraint_that_is_checked_at_the_commit_is_the_handlers(target: Any) -> None:
    connection = target._opened()
    connection.execute("PRAGMA foreign_keys = ON").fetchall()
    connection.execute("CREATE TABLE child (n INTEGER REFERENCES parent (n) DEFERRABLE INITIALLY DEFERRED)")
    connection.execute("CREATE TABLE parent (n INTEGER PRIMARY KEY)")
    if hasattr(connection, "commit"):
        connection.commit()
    state, _ = target.take(0, "g")
    with pytest.raises(HandlerFailed):
        target.apply(msgspec.structs.replace(state, place="1"), lambda connection: connection.execute("INSERT INTO child VALUES (9)"))
    assert target.take(0, "g")[0].place == ""
