"""Prepared transactions (XA) in the binary log.

XA PREPARE logs the changes; they count from XA COMMIT on, which is logged later by itself, perhaps hours later, or never after XA ROLLBACK.
A cursor therefore notes where each open transaction was prepared. At its commit the changes are read from there.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import closing
from typing import Any

import msgspec
import pymysql
from pymysqlreplication.event import HeartbeatLogEvent, MariadbGtidEvent, QueryEvent, RotateEvent, XAPrepareEvent, XidEvent

from headwater.adaptors.mysql.binlog_stream import BinlogStream
from headwater.adaptors.mysql.connection import MySQLAddress, MySQLSession, code_of
from headwater.core.errors import OffsetGone, Timeout

Place = tuple[str, int]  # a file of the binary log and the position before a transaction
SETTLES = 0.5  # seconds in which most prepared transactions are over
PATIENCE = 30.0  # seconds for a commit that is logged to become visible
FIRST = 4  # the position of a file's first event
_PREPARED_XA = 64  # a flag of MariaDB's GTID event: its transaction is prepared
_HIDDEN = (1227, 1401)  # MySQL's errors for a user without the right XA_RECOVER_ADMIN
_WAIT = 0.02
_NUMBERS = r"X'[0-9a-f]*'\s*,\s*X'[0-9a-f]*'\s*,\s*\d+"
_STATEMENT = re.compile(rf"\s*XA\s+(START|BEGIN|END|COMMIT|ROLLBACK)\s+({_NUMBERS})", re.IGNORECASE)
_INSIDE = ("BEGIN", "SAVEPOINT", "XA START", "XA BEGIN", "XA END")
_EVENTS = (HeartbeatLogEvent, MariadbGtidEvent, QueryEvent, RotateEvent, XAPrepareEvent, XidEvent)


class XaStatement(msgspec.Struct, frozen=True):
    """A statement about a prepared transaction, as the log has it."""

    word: str  # start, end, commit, rollback
    xid: str


def statement_of(event: Any) -> str:
    """The text of a query event."""
    text = event.query if isinstance(event.query, str) else event.query.decode(errors="replace")
    return str(text)


def xa_statement(text: str) -> XaStatement | None:
    """The statement, where it is about a prepared transaction."""
    match = _STATEMENT.match(text)
    return XaStatement(match[1].lower().replace("begin", "start"), re.sub(r"\s", "", match[2]).lower()) if match is not None else None


def within(text: str) -> bool:
    """Whether the statement begins or continues a transaction: every other one ends it, or is one by itself."""
    return text.lstrip()[:9].upper().startswith(_INSIDE)


def xid_of(event: Any) -> str:
    """The id of a prepared transaction, written as in its statements."""
    return _xid(event.xid_gtrid, event.xid_bqual, event.xid_format_id)


def begins_prepared(event: Any) -> bool:
    """Whether changes behind the event are those of a transaction that ends with XA PREPARE."""
    match type(event).__name__:
        case "MariadbGtidEvent":
            return bool(event.flags & _PREPARED_XA)
        case "QueryEvent":
            stated = xa_statement(statement_of(event))
            return stated is not None and stated.word == "start"
    return False


def open_at(session: MySQLSession, where: MySQLAddress, place: Place) -> dict[str, Place]:
    """The transactions that were prepared before a place of the log and not committed there, each with its place.

    Call it when the place is known. An XA COMMIT before the place that the engine has not finished yet is waited for, so that afterwards a
    snapshot has it. Errors: `Timeout` where that takes too long.
    """
    left = _recoverable(session)
    ends = time.monotonic() + SETTLES
    while left and time.monotonic() < ends:
        threading.Event().wait(_WAIT)
        left &= _recoverable(session)
    places: dict[str, Place] = {}
    committed: set[str] = set()
    for xid in left:
        logged, at = _last_of(session, where, xid, place)
        if at is not None:
            places[xid] = at
        elif logged:
            committed.add(xid)
    ends = time.monotonic() + PATIENCE
    while committed & _recoverable(session):
        if time.monotonic() > ends:
            raise Timeout(
                f"MySQL at {session.where} has logged XA COMMIT of {', '.join(sorted(committed))} and not finished it.",
                hint="See SHOW PROCESSLIST there; start again when it has ended.",
            )
        threading.Event().wait(_WAIT)
    return places


def prepared_at(where: MySQLAddress, xid: str, before: Place) -> Place:
    """Where a transaction was prepared that is committed at `before`. Errors: `OffsetGone` where the log no longer has it."""
    with MySQLSession(where) as session:
        _, place = _last_of(session, where, xid, before)
    if place is None:
        raise OffsetGone(
            f"The binary log at {where} no longer has the changes of the prepared transaction {xid}, which is committed at "
            f"{before[0]}:{before[1]}.",
            hint="Begin the copy anew; and let the server keep its binary log for longer.",
        )
    return place


def _recoverable(session: MySQLSession) -> set[str]:
    """The prepared transactions, those that are just being committed included; none where the user must not see them.

    MySQL wants a right for it. There the position was taken under a lock, so no commit was under way.
    """
    try:
        rows = session.ask("XA RECOVER")
    except pymysql.MySQLError as error:
        if code_of(error) not in _HIDDEN:
            raise
        return set()
    xids: set[str] = set()
    for number, length, _, data in rows:
        data = data.encode("latin-1", "replace") if isinstance(data, str) else bytes(data)
        xids.add(_xid(data[:length], data[length:], number))
    return xids


def _last_of(session: MySQLSession, where: MySQLAddress, xid: str, before: Place) -> tuple[bool, Place | None]:
    """Whether the log has the transaction before a place; and where it was prepared, unless it has ended there."""
    files = [str(row[0]) for row in session.ask("SHOW BINARY LOGS")]
    for file in reversed(files[: files.index(before[0]) + 1] if before[0] in files else files):
        states = _scan(where, file, before[1] if file == before[0] else None)
        if xid in states:
            return True, states[xid]
    return False, None


def _scan(where: MySQLAddress, file: str, until: int | None) -> dict[str, Place | None]:
    """By transaction of one file of the log, where it was prepared; None where it ended after that."""
    states: dict[str, Place | None] = {}
    with closing(BinlogStream(where, file, FIRST, events=_EVENTS)) as stream:
        before = (file, FIRST)  # behind the last whole transaction
        while until is None or stream.place[1] < until:
            event = stream.next()
            if stream.place[0] != file or isinstance(event, HeartbeatLogEvent):
                break
            if isinstance(event, XAPrepareEvent):
                states[xid_of(event)] = before
            elif isinstance(event, QueryEvent):
                text = statement_of(event)
                if within(text):
                    continue
                if (stated := xa_statement(text)) is not None:
                    states[stated.xid] = None
            elif not isinstance(event, XidEvent):
                continue
            before = stream.place
    return states


def _xid(gtrid: bytes, bqual: bytes, number: int) -> str:
    return f"x'{gtrid.hex()}',x'{bqual.hex()}',{number}"
