"""Following the binary log of MariaDB and MySQL from a saved position.

A cursor is `{"server", "file", "pos": behind the last whole transaction, "seen": changes of the next one that were already returned,
"begun": when the server began the file, in seconds, once that is known, "prepared": by id, where each open transaction was prepared,
"dropped": tables that may come back}`, the last two only where there are any.
The server does not know the reader: it keeps its log for binlog_expire_logs_seconds, whether it was read or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
from pymysqlreplication.event import (
    ExecuteLoadQueryEvent,
    FormatDescriptionEvent,
    HeartbeatLogEvent,
    MariadbGtidEvent,
    NotImplementedEvent,
    QueryEvent,
    RotateEvent,
    XAPrepareEvent,
    XidEvent,
)
from pymysqlreplication.row_event import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent

from headwater.adaptors.mysql.binlog_stream import HEARTBEAT, BinlogStream
from headwater.adaptors.mysql.charsets import as_bytes, charset_of, reader
from headwater.adaptors.mysql.connection import MySQLAddress, MySQLSession
from headwater.adaptors.mysql.followed_table import FollowedTable
from headwater.adaptors.mysql.position import visible_position
from headwater.adaptors.mysql.prepared import (
    Place,
    XaStatement,
    begins_prepared,
    open_at,
    prepared_at,
    statement_of,
    within,
    xa_statement,
    xid_of,
)
from headwater.adaptors.mysql.statements import LoggedStatement, logged_statement
from headwater.adaptors.mysql.table_watch import Keys, MysqlTableWatch, primary_keys, refuse_unlogged
from headwater.adaptors.mysql.tables import table, tables
from headwater.adaptors.mysql.unlogged import is_sequence, unlogged
from headwater.adaptors.pieces import names_size
from headwater.core.errors import BadConfig, Differs, OffsetGone
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import Piece

PIECE_BYTES = 4 << 20
PIECE_MESSAGES = 10_000
_NEEDED = {"log_bin": ("1", "ON"), "binlog_format": ("ROW",), "binlog_row_image": ("FULL",), "binlog_row_metadata": ("FULL",)}
# Compressed forms of the log that mysql-replication cannot read, by the variables of MariaDB and MySQL.
_UNREADABLE = {"log_bin_compress": "OFF", "binlog_transaction_compression": "OFF", "binlog_row_value_options": ""}
# The events of these forms: MySQL's compressed transaction and partial update, MariaDB's compressed statement and six row events.
_UNREAD = frozenset({39, 40, *range(165, 172)})
_EVENTS = (
    *(DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent),
    *(FormatDescriptionEvent, HeartbeatLogEvent, QueryEvent, RotateEvent, XidEvent),
    *(MariadbGtidEvent, XAPrepareEvent),  # of prepared transactions
    *(ExecuteLoadQueryEvent, NotImplementedEvent, PartialUpdateRowsEvent),  # to know of changes that cannot be read
)
_LOAD_HEADER = 26  # bytes of the event of a LOAD DATA before its variables
_ROWS = ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent")


def prepare(where: MySQLAddress, chosen: Namespaces) -> dict[str, Any]:
    """The cursor: what lies before it is in every copy that is begun afterwards, or is prepared and noted in it.

    Errors: `BadConfig` where changes cannot be followed; `Forbidden`; `Timeout`.
    """
    with MySQLSession(where) as session:
        check(session)
        for source_table in tables(session, chosen):
            if not source_table.key:
                raise BadConfig(
                    f"The table {source_table.namespace} has no primary key, so its changes cannot be followed.",
                    hint="Give it a primary key, or choose a narrower namespace.",
                )
            odd = [column.name for column in source_table.columns if column.data_type in ("uuid", "inet4", "inet6")]
            if odd:
                raise BadConfig(
                    f"The table {source_table.namespace} has {', '.join(odd)} of a type whose values the binary log does not have.",
                    hint="Keep such values as char or binary, or copy the table without following it.",
                )
        refuse_unlogged(session, chosen)
        file, pos = visible_position(session, where)
        prepared = open_at(session, where, (file, pos))
        cursor: dict[str, Any] = {"server": _server(session), "file": file, "pos": pos, "seen": 0}
        return cursor | {"prepared": prepared} if prepared else cursor


def check(session: MySQLSession) -> None:
    """Errors: `BadConfig` for a server that does not log whole rows with their columns' names."""
    for name, wanted in _NEEDED.items():
        value = session.variable(name)
        if value is None or value.upper() not in wanted:
            raise BadConfig(
                f"The server's {name} is {'missing' if value is None else value}; following changes needs {wanted[-1]}.",
                hint=f"Set {name} = {wanted[-1]} there.",
            )
    for name, needed in _UNREADABLE.items():
        value = session.variable(name)
        if value is not None and value.upper() not in (needed, "0" if needed else ""):
            raise BadConfig(
                f"The server's {name} is {value}; headwater cannot read such a binary log.",
                hint=f"SET GLOBAL {name} = {needed or repr('')}",
            )


def follow(where: MySQLAddress, server_id: int, cursor: dict[str, Any], chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
    """Changes behind the cursor."""
    with MySQLSession(where) as session:
        if _server(session) != cursor["server"]:
            raise OffsetGone("The server is not the one whose binary log was followed.", hint="Begin the copy anew.")
        check(session)
    reading = _ChangeReader(where, server_id, cursor, chosen)
    try:
        while not stopped():
            yield reading.piece()
    except pymysql.MySQLError as error:
        raise MySQLSession.explained(error, where) from error
    finally:
        reading.close()


class _ChangeReader:
    """Reads one stream of the binary log."""

    def __init__(self, where: MySQLAddress, server_id: int, cursor: dict[str, Any], chosen: Namespaces) -> None:
        self._where, self._chosen = where, chosen
        self._cursor = dict(cursor)
        self._prepared: dict[str, Place] = {xid: (file, pos) for xid, (file, pos) in self._cursor.pop("prepared", {}).items()}
        self._watch = self._watching(self._cursor.pop("dropped", []))
        self._skip = int(cursor.get("seen", 0))
        self._index = 0  # changes of the open transaction so far
        self._open = False
        self._preparing = False  # the open transaction ends with XA PREPARE: its changes are read again at XA COMMIT
        self._tables: dict[tuple[str, str, tuple[str, ...]], FollowedTable] = {}
        self._stream = BinlogStream(where, self._cursor["file"], self._cursor["pos"], events=_EVENTS, server_id=server_id)
        self._committing: _PreparedChanges | None = None
        self._problem: Differs | OffsetGone | None = None

    def piece(self) -> Piece:
        if self._problem is not None:
            raise self._problem
        out: list[Message] = []
        size = 0
        ends = time.monotonic() + 2 * HEARTBEAT
        more = True
        while size < piece_size(PIECE_BYTES) and len(out) < PIECE_MESSAGES:
            event = self._committing.next() if self._committing is not None else self._stream.next()
            if event is None:  # the prepared transaction is read, and its XA COMMIT with it
                self._forget_prepared()
            else:
                size += event.event_size
                if type(event).__name__ == "HeartbeatLogEvent":
                    more = False
                    break
                index = self._index
                try:
                    messages = self._messages(event)
                except (Differs, OffsetGone) as error:
                    if not out:
                        raise
                    self._index = index  # or the next run would skip what could not be read
                    self._problem = error  # raised when what lies before it is in the log: a copy would not tell of its deletes
                    break
                out += messages
                size += len(messages) * names_size(messages[-1]) if messages else 0  # of one table, and a delete comes before an insert
            more = self._open or self._stream.arrived()  # so that not every small transaction becomes a piece
            if (out and not more) or (not out and time.monotonic() > ends):
                break
        if not out and more:
            # An empty piece says that there is nothing new, and a run would end here, before the changes behind those of other tables.
            # It is of a followed table's namespace, because `status` shows every namespace that sinks have taken something of.
            namespace = self._watch.example() or "mysql"
            out.append(Message(namespace, {"file": self._cursor["file"], "pos": self._cursor["pos"]}, Op.NOOP, 0, Mode.SYNC))
        # Changes that were returned before a restart count until all of them are skipped.
        position = {**self._cursor, "seen": max(self._index if self._open else 0, self._skip)}
        if self._prepared:
            position["prepared"] = dict(self._prepared)
        if self._watch.dropped:
            position["dropped"] = list(self._watch.dropped)
        return Piece(position=position, messages=out)

    def close(self) -> None:
        self._stream.close()
        if self._committing is not None:
            self._committing.close()

    def _messages(self, event: Any) -> list[Message]:
        kind = type(event).__name__
        if kind in _ROWS:
            self._open = True
            return self._changes(event) if not self._preparing else []
        if event.event_type in _UNREAD:
            raise OffsetGone(
                f"The binary log at {self._where} has changes of a form that cannot be read, at {':'.join(map(str, self._stream.place))}.",
                hint=f"Set {', '.join(_UNREADABLE)} off there, then begin the copy anew.",
            )
        if begins_prepared(event):
            self._open = self._preparing = True
        elif kind == "XidEvent":
            self._committed()
        elif kind == "RotateEvent" and not self._open:
            # A stream begins with one, too. It ends no transaction: the count of changes to skip stays.
            self._move()
        elif kind == "FormatDescriptionEvent":
            self._check_file(event.timestamp)
        elif kind == "XAPrepareEvent":
            self._noted(event)
        elif kind == "ExecuteLoadQueryEvent":
            self._watch.stated(*_loaded(event))
        elif kind == "QueryEvent":
            text = statement_of(event)
            stated = xa_statement(text)
            return self._stated(event, text) if stated is None else self._ended(stated)
        return []

    def _changes(self, event: Any) -> list[Message]:
        as_bytes(event.columns)
        wanted = f"{event.schema}.{event.table}" in self._chosen and not is_sequence([column.name for column in event.columns])
        followed = self._followed(event) if wanted else None
        rows = self._rows(event, wanted=followed is not None)
        skipped = max(0, min(len(rows), self._skip - self._index))
        self._index += len(rows)
        if followed is None:
            return []
        return [message for row in rows[skipped:] for message in followed.messages(type(event).__name__, row, event.timestamp * 1000)]

    # -- prepared transactions ------------------------------------------------------------------------------

    def _noted(self, event: Any) -> None:
        """XA PREPARE: its changes wait. MySQL logs XA COMMIT ... ONE PHASE in the same form, which commits at once."""
        xid = xid_of(event)
        self._prepared[xid] = (self._cursor["file"], self._cursor["pos"])
        self._preparing = False
        if event.one_phase:
            self._commit_prepared(xid)
        else:
            self._committed()

    def _ended(self, stated: XaStatement) -> list[Message]:
        if stated.word == "commit":
            self._commit_prepared(stated.xid)
        elif stated.word == "rollback":
            self._prepared.pop(stated.xid, None)
            self._committed()
        return []

    def _commit_prepared(self, xid: str) -> None:
        if xid not in self._prepared:  # prepared before this cursor's beginning
            self._prepared[xid] = prepared_at(self._where, xid, (self._cursor["file"], self._cursor["pos"]))
        self._open = True
        self._committing = _PreparedChanges(self._where, xid, self._prepared[xid])

    def _forget_prepared(self) -> None:
        if self._committing is not None:
            self._committing.close()
            self._prepared.pop(self._committing.xid)
            self._committing = None
        self._committed()

    # -------------------------------------------------------------------------------------------------------

    def _rows(self, event: Any, *, wanted: bool) -> list[Any]:
        try:
            rows: list[Any] = event.rows
            return rows
        except Exception:  # of a table with types that mysql-replication does not know; it counts as one change each time
            if wanted:
                raise
            return [None]

    def _stated(self, event: Any, text: str) -> list[Message]:
        """A statement in the log: the end of a transaction, or DDL, which is a transaction by itself."""
        if within(text):
            return []
        out: list[Message] = []
        if not text.lstrip()[:6].upper().startswith("COMMIT"):
            usual = event.schema.decode(errors="replace") if isinstance(event.schema, bytes) else event.schema
            emptied = self._watch.stated(logged_statement(text, getattr(event, "sql_mode", 0)), usual, text)
            out = [Message(name, {"command": "truncate"}, Op.COMMAND, event.timestamp * 1000, Mode.SYNC) for name in emptied]
            self._tables.clear()  # a column of the same name may have another type now
        if not self._preparing:
            self._committed()
        return out

    def _watching(self, dropped: list[str]) -> MysqlTableWatch:
        with MySQLSession(self._where) as session:
            keys, folding = primary_keys(session), int(session.one("SELECT @@lower_case_table_names"))
        watch = MysqlTableWatch(self._chosen, self._where.database, keys=keys, look=self._key_now, untold=self._untold_now, folding=folding)
        watch.dropped = dropped
        return watch

    def _key_now(self, schema: str, name: str) -> Keys:
        with MySQLSession(self._where) as session:
            return primary_keys(session, schema, name)

    def _untold_now(self, schema: str, name: str) -> str | None:
        with MySQLSession(self._where) as session:
            return unlogged(session, self._chosen, schema, name)

    def _committed(self) -> None:
        self._move()
        self._open, self._index, self._skip = False, 0, 0

    def _move(self) -> None:
        file, pos = self._stream.place
        if file != self._cursor["file"]:
            self._cursor.pop("begun", None)
        self._cursor |= {"file": file, "pos": pos}

    def _check_file(self, begun: int) -> None:
        """Errors: `OffsetGone` where the cursor's file is another one of its name, as after RESET MASTER."""
        if self._stream.place[0] == self._cursor["file"] and self._cursor.setdefault("begun", begun) != begun:
            raise OffsetGone(
                f"The binary log {self._cursor['file']} at {self._where} is not the one that was followed: the log was begun anew.",
                hint="Begin the copy anew: `headwater pipeline run FILE --again`.",
            )

    def _followed(self, event: Any) -> FollowedTable:
        """The event's table. Call it before the event's rows are read: it sets the names of the members of their enums."""
        names = tuple(column.name for column in event.columns)
        key = (event.schema, event.table, names)
        if key not in self._tables:
            with MySQLSession(self._where) as session:
                now = table(session, event.schema, event.table)
            odd = {column.name: reader(charset, self._converted) for column in event.columns if (charset := charset_of(column))}
            self._tables[key] = FollowedTable(f"{event.schema}.{event.table}", event.columns, now, odd)
        self._tables[key].name_members(event.columns)
        return self._tables[key]

    def _converted(self, charset: str, data: bytes) -> str:
        """Bytes of a character set, decoded by the server: Python does not know the set, or knows it differently."""
        with MySQLSession(self._where) as session:
            return str(session.one(f"SELECT CONVERT(_{charset} x'{data.hex()}' USING utf8mb4)"))


class _PreparedChanges:
    """The changes of a prepared transaction, read again from where it was prepared."""

    def __init__(self, where: MySQLAddress, xid: str, place: Place) -> None:
        self.xid = xid
        self._stream = BinlogStream(where, *place, events=_EVENTS)
        self._inside = False

    def next(self) -> Any:
        """The next event with changes; None behind the last one."""
        while True:
            event = self._stream.next()
            kind = type(event).__name__
            if kind == "MariadbGtidEvent" or begins_prepared(event):
                self._inside = begins_prepared(event)
            elif kind == "XAPrepareEvent" and xid_of(event) == self.xid:
                return None
            elif self._inside and (kind in _ROWS or event.event_type in _UNREAD):
                return event

    def close(self) -> None:
        self._stream.close()


def _loaded(event: Any) -> tuple[LoggedStatement, str, str]:
    """LOAD DATA that was logged as a statement: what it does, its database, and its text, which mysql-replication does not read."""
    event.packet.advance(event.status_vars_length)
    schema = event.packet.read(event.schema_length).decode(errors="replace")
    event.packet.advance(1)
    text = event.packet.read(event.event_size - _LOAD_HEADER - event.status_vars_length - event.schema_length - 1)
    text = text.decode(errors="backslashreplace")
    return logged_statement(text), schema, text


def _server(session: MySQLSession) -> str:
    """The identity of this server: the binary logs of others have files of the same names."""
    for name in ("server_uid", "server_uuid"):
        if value := session.variable(name):
            return value
    return f"{session.one('SELECT @@hostname')}:{session.one('SELECT @@server_id')}"
