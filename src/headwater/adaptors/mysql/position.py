"""The position in the binary log at which following begins: every transaction before it is visible to snapshots taken afterwards.

The end of the log is no such position. A transaction is logged first and becomes visible in the engine later: after a sync, or when a
replica has acknowledged it (semi-synchronous replication, AFTER_SYNC). It would lie before the end of the log and be in no snapshot.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pymysql
from pymysqlreplication.event import HeartbeatLogEvent, MariadbBinLogCheckPointEvent, MariadbGtidEvent, RotateEvent

from headwater.adaptors.mysql.binlog_stream import BinlogStream
from headwater.adaptors.mysql.connection import MySQLAddress, MySQLSession, code_of
from headwater.core.errors import BadConfig, Forbidden, Timeout

PATIENCE = 3  # seconds that the lock is waited for: meanwhile every writer of the server waits, too
TRIES = 5
SETTLES = 30.0  # seconds for a new file of MariaDB's log to have its checkpoint: it usually comes within one
FIRST = 4  # the position of a file's first event
_WAIT = 0.05
# MariaDB: the position of the session's snapshot. Commits advance it when they become visible, in the order of the log.
_SNAPSHOT = "SHOW SESSION STATUS LIKE 'binlog_snapshot_%'"
_EVENTS = (HeartbeatLogEvent, MariadbBinLogCheckPointEvent, MariadbGtidEvent, RotateEvent)


def visible_position(session: MySQLSession, where: MySQLAddress) -> tuple[str, int]:
    """A file of the binary log and a position. The session, of the same server, must not be in a transaction.

    Errors: `BadConfig` without a binary log; `Forbidden`; `Timeout` where the server must be locked and is too busy.
    """
    _end(session)  # needs the right that reading the log needs: it is told here, before a copy that would be of no use
    ends = time.monotonic() + (SETTLES if "mariadb" in session.version().lower() else 0)
    while (position := _of_snapshot(session)) is not None and time.monotonic() < ends:
        if _is_settled(where, *position):
            return position
        threading.Event().wait(_WAIT)
    return _under_lock(session)


def _of_snapshot(session: MySQLSession) -> tuple[str, int] | None:
    """The position of a snapshot, without a lock; None on servers that do not tell it."""
    session.do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    session.do("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    try:
        status = {str(name).lower(): value for name, value in session.ask(_SNAPSHOT)}
    finally:
        session.do("ROLLBACK")
    file = status.get("binlog_snapshot_file")
    return (str(file), int(status["binlog_snapshot_position"])) if file else None


def _is_settled(where: MySQLAddress, file: str, pos: int) -> bool:
    """Whether everything before the position of a snapshot is visible.

    It is where the position lies behind a transaction of its file: that transaction has set it when it became visible, after all before
    it. But a server that begins a file sets the position to the file's beginning at once, although transactions of the file before, even
    the one that was too large for it, may not be visible. Then the file's checkpoint tells: the server logs it when the engine has
    committed all transactions of earlier files.
    """
    with closing(BinlogStream(where, file, FIRST, events=_EVENTS)) as stream:
        while True:
            event = stream.next()
            if stream.place[0] != file or isinstance(event, HeartbeatLogEvent):
                return False
            if isinstance(event, MariadbGtidEvent):  # a transaction begins
                return stream.place[1] <= pos
            if isinstance(event, MariadbBinLogCheckPointEvent) and event.filename == file:
                return True


def _under_lock(session: MySQLSession) -> tuple[str, int]:
    """The end of the log while no transaction can commit: the lock waits for those that are committing.

    The server may also wait for a long query, and writers wait behind us. So each try ends soon, and they go on before the next one.
    """
    session.do(f"SET SESSION lock_wait_timeout = {PATIENCE}")
    for number in range(TRIES):
        if number:
            threading.Event().wait(PATIENCE)
        try:
            session.do("FLUSH TABLES WITH READ LOCK")
        except pymysql.MySQLError as error:
            if code_of(error) == 1227:
                raise Forbidden(
                    f"MySQL at {session.where}: following changes begins with a short read lock, which needs the right RELOAD.",
                    hint="Grant RELOAD to the URI's user.",
                ) from error
            if code_of(error) != 1205:
                raise
            continue
        try:
            return _end(session)
        finally:
            session.do("UNLOCK TABLES")
    raise Timeout(
        f"MySQL at {session.where} gave no read lock in {TRIES} tries of {PATIENCE} s: a long query or a commit holds it up.",
        hint="See SHOW PROCESSLIST there; start again when it has ended.",
    )


def _end(session: MySQLSession) -> tuple[str, int]:
    """The end of the binary log."""
    for question in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
        try:
            rows = session.ask(question)
        except pymysql.err.ProgrammingError as error:
            if code_of(error) != 1064:  # each server knows one of the two statements
                raise
            continue
        if rows:
            return rows[0][0], int(rows[0][1])
    raise BadConfig("The server keeps no binary log.", hint="Start it with log_bin.")
