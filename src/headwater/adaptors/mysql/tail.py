"""Following the binary log of MariaDB and MySQL from a saved position.

A cursor is `{"server", "file", "pos": behind the last whole transaction, "seen": changes of the next one that were already returned}`.
The server does not know the reader: it keeps its log for binlog_expire_logs_seconds, whether it was read or not.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import HeartbeatLogEvent, NotImplementedEvent, QueryEvent, RotateEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent

from headwater.adaptors.mysql.charsets import as_bytes, charset_of, reader
from headwater.adaptors.mysql.connection import MySQLAddress, MySQLConnection, MySQLSession, code_of, settings
from headwater.adaptors.mysql.tables import MysqlTable, converter, table, tables
from headwater.core.errors import BadConfig, OffsetGone, Unreachable
from headwater.pipeline import values
from headwater.pipeline.adaptor import Piece
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces

PIECE_BYTES = 4 << 20
PIECE_MESSAGES = 10_000
HEARTBEAT = 0.5  # seconds between heartbeats of a server without changes
SILENCE = 15.0  # seconds without a heartbeat, after which the server counts as gone
_NAME = r"(?:`((?:[^`]|``)+)`|([^`.\s;]+))"
_WORDS = r"(?:(?:TABLE|INTO|FROM|IGNORE|QUICK|LOW_PRIORITY|HIGH_PRIORITY|DELAYED)\s+)*"
_CHANGE = re.compile(
    rf"\s*(?:/\*.*?\*/\s*)*(TRUNCATE|INSERT|REPLACE|UPDATE|DELETE)\s+{_WORDS}(?:{_NAME}\s*\.\s*)?{_NAME}", re.IGNORECASE | re.DOTALL
)
_NEEDED = {"log_bin": ("1", "ON"), "binlog_format": ("ROW",), "binlog_row_image": ("FULL",), "binlog_row_metadata": ("FULL",)}
# Compressed forms of the log that mysql-replication cannot read, by the variables of MariaDB and MySQL.
_UNREADABLE = {"log_bin_compress": "OFF", "binlog_transaction_compression": "OFF", "binlog_row_value_options": ""}
# The events of these forms: MySQL's compressed transaction and partial update, MariaDB's six compressed row events.
_UNREAD = frozenset({39, 40, *range(166, 172)})


def prepare(where: MySQLAddress, chosen: Namespaces) -> dict[str, Any]:
    """The cursor before everything that is copied afterwards. Errors: `BadConfig` where changes cannot be followed; `Forbidden`."""
    with MySQLSession(where) as session:
        check(session)
        for one in tables(session, chosen):
            if not one.key:
                raise BadConfig(
                    f"The table {one.namespace} has no primary key, so its changes cannot be followed.",
                    hint="Give it a primary key, or choose a narrower namespace.",
                )
            odd = [column.name for column in one.columns if column.data_type in ("uuid", "inet4", "inet6")]
            if odd:
                raise BadConfig(
                    f"The table {one.namespace} has {', '.join(odd)} of a type whose values the binary log does not have.",
                    hint="Keep such values as char or binary, or copy the table without following it.",
                )
        file, pos = _end(session)
        return {"server": _server(session), "file": file, "pos": pos, "seen": 0}


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
        self._skip = int(cursor.get("seen", 0))
        self._index = 0  # changes of the open transaction so far
        self._open = False
        self._tables: dict[tuple[str, str, tuple[str, ...]], _FollowedTable] = {}
        self._connections = 0
        self._stream = self._started(server_id or random.SystemRandom().randrange(2**31, 2**32))

    def piece(self) -> Piece:
        out: list[Message] = []
        size = 0
        ends = time.monotonic() + 2 * HEARTBEAT
        more = True
        while size < PIECE_BYTES and len(out) < PIECE_MESSAGES:
            event = self._stream.fetchone()
            if event is None:  # a server that stops ends the stream
                raise Unreachable(f"MySQL at {self._where} has ended the stream of changes.", hint="See whether it runs, then start again.")
            size += event.event_size
            if type(event).__name__ == "HeartbeatLogEvent":
                more = False
                break
            out += self._messages(event)
            more = self._open or self._more()
            if (out and not more) or (not out and time.monotonic() > ends):
                break
        if not out and more:
            # An empty piece says that there is nothing new, and a run would end here, before the changes behind those of other tables.
            out.append(Message("mysql", {"file": self._cursor["file"], "pos": self._cursor["pos"]}, Op.NOOP, 0, Mode.SYNC))
        # Changes that were returned before a restart count until all of them are skipped.
        return Piece(position={**self._cursor, "seen": max(self._index if self._open else 0, self._skip)}, messages=out)

    def close(self) -> None:
        self._stream.close()

    def _messages(self, event: Any) -> list[Message]:
        kind = type(event).__name__
        if kind in ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent"):
            self._open = True
            as_bytes(event.columns)
            followed = self._followed(event) if f"{event.schema}.{event.table}" in self._chosen else None
            rows = self._rows(event, wanted=followed is not None)
            skipped = max(0, min(len(rows), self._skip - self._index))
            self._index += len(rows)
            if followed is None:
                return []
            return [message for row in rows[skipped:] for message in followed.messages(kind, row, event.timestamp * 1000)]
        if event.event_type in _UNREAD:
            raise OffsetGone(
                f"The binary log at {self._where} has changes of a form that cannot be read, at {self._stream.log_file}:"
                f"{self._stream.log_pos}.",
                hint=f"Set {', '.join(_UNREADABLE)} off there, then begin the copy anew.",
            )
        if kind == "XidEvent":
            self._committed()
        elif kind == "RotateEvent" and not self._open:
            # A stream begins with one, too. It ends no transaction: the count of changes to skip stays.
            self._cursor |= {"file": self._stream.log_file, "pos": self._stream.log_pos}
        elif kind == "QueryEvent":
            return self._stated(event)
        return []

    def _rows(self, event: Any, *, wanted: bool) -> list[Any]:
        try:
            found: list[Any] = event.rows
            return found
        except Exception:  # of a table with types that mysql-replication does not know; it counts as one change each time
            if wanted:
                raise
            return [None]

    def _stated(self, event: Any) -> list[Message]:
        """A statement in the log: the end of a transaction, or DDL, which is a transaction by itself."""
        text = event.query if isinstance(event.query, str) else event.query.decode(errors="replace")
        word = text.strip()[:8].upper()
        if word.startswith(("BEGIN", "SAVEPOIN")):
            return []
        out: list[Message] = []
        if (found := _CHANGE.match(text)) is not None:
            usual = event.schema.decode() if isinstance(event.schema, bytes) else event.schema
            schema = (found[2] or "").replace("``", "`") or found[3] or usual
            name = f"{schema}.{(found[4] or '').replace('``', '`') or found[5]}"
            if name in self._chosen and (not self._where.database or schema == self._where.database):
                if found[1].upper() != "TRUNCATE":
                    raise OffsetGone(
                        f"A session has logged a statement instead of the rows that it changed in {name}, so the rows are missing.",
                        hint="Let every session log rows (binlog_format), then begin the copy anew.",
                    )
                out = [Message(name, {"command": "truncate"}, Op.COMMAND, event.timestamp * 1000, Mode.SYNC)]
        if not word.startswith("COMMIT"):
            self._tables.clear()  # a column of the same name may have another type now
        self._committed()
        return out

    def _committed(self) -> None:
        self._cursor |= {"file": self._stream.log_file, "pos": self._stream.log_pos}
        self._open, self._index, self._skip = False, 0, 0

    def _followed(self, event: Any) -> _FollowedTable:
        """The event's table. Call it before the event's rows are read: it sets the names of the members of their enums."""
        names = tuple(column.name for column in event.columns)
        key = (event.schema, event.table, names)
        if key not in self._tables:
            with MySQLSession(self._where) as session:
                now = table(session, event.schema, event.table)
            odd = {column.name: reader(charset, self._converted) for column in event.columns if (charset := charset_of(column))}
            self._tables[key] = _FollowedTable(f"{event.schema}.{event.table}", names, now, odd)
        self._tables[key].name_members(event.columns)
        return self._tables[key]

    def _converted(self, charset: str, data: bytes) -> str:
        """Bytes of a character set, decoded by the server: Python does not know the set, or knows it differently."""
        with MySQLSession(self._where) as session:
            return str(session.one(f"SELECT CONVERT(_{charset} x'{data.hex()}' USING utf8mb4)"))

    def _more(self) -> bool:
        """Whether the next event has arrived, so that not every small transaction becomes a piece."""
        connection = self._stream._stream_connection
        connection._sock.setblocking(False)
        try:
            return bool(connection._rfile.peek(1))
        except OSError:
            return False
        finally:
            connection._sock.settimeout(SILENCE)

    def _started(self, server_id: int) -> Any:
        return BinLogStreamReader(
            connection_settings=settings(self._where, read_timeout=SILENCE),
            server_id=server_id,
            blocking=True,
            resume_stream=True,
            log_file=self._cursor["file"],
            log_pos=self._cursor["pos"],
            only_events=[
                *(DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent),
                *(HeartbeatLogEvent, QueryEvent, RotateEvent, XidEvent),
                *(NotImplementedEvent, PartialUpdateRowsEvent),  # to know of changes that cannot be read
            ],
            only_schemas=[self._where.database] if self._where.database else None,
            slave_heartbeat=HEARTBEAT,
            pymysql_wrapper=self._connect,
            enable_logging=False,
            filter_non_implemented_events=False,
        )

    def _connect(self, **given: Any) -> Any:
        """Opens the two connections of mysql-replication. It would reopen a lost one for ever: whether to wait is the run's decision."""
        self._connections += 1
        if self._connections > 2:
            raise Unreachable(f"MySQL at {self._where} has ended the stream of changes.", hint="See whether it runs, then start again.")
        try:
            return MySQLConnection(**given)
        except pymysql.MySQLError as error:
            raise MySQLSession.explained(error, self._where) from None


class _FollowedTable:
    """A table of the binary log, with converters for its columns."""

    def __init__(self, namespace: str, names: tuple[str, ...], now: MysqlTable | None, odd: Mapping[str, Callable[[Any], Any]]) -> None:
        """`odd`: by column, the decoder of text that is not in a plain character set."""
        self._namespace, self._odd = namespace, odd
        known = {column.name: column for column in now.columns} if now is not None else {}
        self._members = {column.name: column.members for column in known.values() if column.members}
        self._convert = {name: converter(known[name]) if name in known else values.extended for name in names}
        self._ids = now.key if now is not None and set(now.key) <= set(names) else ()

    def name_members(self, columns: Iterable[Any]) -> None:
        """Set the names of the members of enums and sets from the table: mysql-replication drops letters that are not in UTF-8."""
        for column in columns:
            members = self._members.get(column.name, ())
            if column.enum_values and len(column.enum_values) == len(members) + 1:
                column.enum_values = ["", *members]
            elif column.set_values and len(column.set_values) == len(members):
                column.set_values = list(members)

    def messages(self, kind: str, row: dict[str, Any], at: int) -> list[Message]:
        def message(op: Op, data: dict[str, Any]) -> Message:
            return Message(self._namespace, data, op, at, Mode.SYNC, id_fields=self._ids or ("_id",))

        if kind == "WriteRowsEvent":
            return [message(Op.INSERT, self._document(row))]
        if kind == "DeleteRowsEvent":
            return [message(Op.DELETE, self._document(row, only=self._ids))]
        before = self._document(row, "before_", only=self._ids) if self._ids else {}
        data = self._document(row, "after_")
        if any(before[name] != data.get(name) for name in self._ids):  # a changed key is a new document
            return [message(Op.DELETE, before), message(Op.INSERT, data)]
        return [message(Op.UPDATE, data)]

    def _document(self, row: dict[str, Any], which: str = "", *, only: Sequence[str] = ()) -> dict[str, Any]:
        """The row before or after the change, with all columns or only some. Errors: `OffsetGone` where the log lacks a column."""
        told = row[f"{which}values"]
        made = {name: self._made(name, value) for name, value in told.items() if not only or name in only}
        for name, why in row.get(f"{which}none_sources", {}).items():
            if name not in made:
                continue
            if why == "empty set":  # mysql-replication returns null for it
                made[name] = ""
            elif why == "cols bitmap":
                raise OffsetGone(
                    f"A session has logged only some columns of a row of {self._namespace}, so the others are missing.",
                    hint="Let every session log whole rows (binlog_row_image), then begin the copy anew.",
                )
        return made

    def _made(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        return self._convert[name](self._odd[name](value) if name in self._odd else value)


def _end(session: MySQLSession) -> tuple[str, int]:
    """The end of the binary log."""
    for question in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
        try:
            found = session.ask(question)
        except pymysql.err.ProgrammingError as error:
            if code_of(error) != 1064:  # each server knows one of the two statements
                raise
            continue
        if found:
            return found[0][0], int(found[0][1])
    raise BadConfig("The server keeps no binary log.", hint="Start it with log_bin.")


def _server(session: MySQLSession) -> str:
    """The identity of this server: the binary logs of others have files of the same names."""
    for name in ("server_uid", "server_uuid"):
        if value := session.variable(name):
            return value
    return f"{session.one('SELECT @@hostname')}:{session.one('SELECT @@server_id')}"
