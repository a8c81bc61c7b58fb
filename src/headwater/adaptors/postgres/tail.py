"""Following PostgreSQL's changes: a publication, a durable slot, and the stream of its transactions as messages.

A cursor is `{"lsn": end of the last whole transaction, "seen": changes of the next one that were already returned}`. The slot advances
only when the next piece is asked for, and only to cursors that came with a message: those are in the log, an empty piece's may not be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from headwater.adaptors.pieces import names_size
from headwater.adaptors.postgres.adaptor import Postgres
from headwater.adaptors.postgres.connection import ALL_ROWS, PostgresSession
from headwater.adaptors.postgres.pgoutput import UNCHANGED, Begin, Cell, Commit, Relation, RowChange, Truncate, decode, lsn, lsn_text
from headwater.adaptors.postgres.publication import publish
from headwater.adaptors.postgres.slot import check_cursor, create_slot, slot_position, wal_end
from headwater.adaptors.postgres.stream import ReplicationStream, probe
from headwater.adaptors.postgres.table_watch import TableWatch
from headwater.adaptors.postgres.tables import PostgresTable, document, followable, logical, table, tables, types
from headwater.adaptors.postgres.types import Type, converter
from headwater.adaptors.postgres.writers import wait_for_writers
from headwater.adaptors.sql.table import quote
from headwater.core.errors import Differs
from headwater.pipeline import values
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import Piece

T = TypeVar("T")
PIECE_BYTES = 4 << 20
PIECE_MESSAGES = 10_000
WAIT = 0.5  # seconds without a change until an empty piece is returned
IDLE_WAL = 16 << 20  # bytes of WAL without a change of the chosen tables, after which the slot advances nevertheless
DECODING = 60.0  # seconds that a server may take to decode what is behind a cursor, until it counts as nothing
LOOK = 60.0  # seconds between two looks at what is told by no change: tables renamed, unpublished, or new
AWAY = 20.0  # seconds without a status message, after which the server may have closed the connection


def prepare(adaptor: Postgres, chosen: Namespaces) -> dict[str, Any]:
    """Make publication and slot where they are missing. Returns the cursor before everything that is copied afterwards.

    Every transaction that this cursor does not include has ended when it returns, so that a copy includes it. Errors: `BadConfig` for a
    server, table, slot or publication whose changes cannot be followed; `Forbidden`; `Timeout` while others have yet to end.
    """
    uri, slot, publication = adaptor.address(), adaptor.slot, adaptor.publication
    with PostgresSession(uri) as session:
        logical(session)
        source_tables = tables(session, chosen)
        followable(source_tables)
        at = slot_position(session, slot)  # one that cannot be used is an error before anything is made
        publish(session, publication, source_tables, slot=slot if at is not None else "")
        if at is None:
            # After the publication: the server decodes a change with the catalog of that moment, in which the publication must exist.
            at = create_slot(session, slot)
        else:
            probe(uri, slot, publication, start=lsn(at), end=wal_end(session))
        wait_for_writers(session, [source_table.oid for source_table in source_tables])
        return {"lsn": at, "seen": 0}


def follow(adaptor: Postgres, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
    """Changes behind the cursor."""
    uri = adaptor.address()
    with PostgresSession(uri) as session:
        end = wal_end(session)
        check_cursor(session, adaptor.slot, lsn(cursor["lsn"]), end)
        watch = TableWatch.of_now(session, adaptor.publication, chosen)
    durable, looked = dict(cursor), time.monotonic()
    while not stopped():
        stream = ReplicationStream(uri, adaptor.slot, adaptor.publication, lsn(durable["lsn"]))
        reading = _ChangeReader(uri, watch, chosen, cursor=durable, end=end)
        try:
            while not stopped():
                piece = reading.piece(stream)
                begun = time.monotonic()
                yield piece
                if piece.messages:
                    durable = piece.position
                if begun - looked > LOOK:
                    looked = begun
                    reading.look()
                if time.monotonic() - begun > AWAY:
                    break  # the server has probably closed the connection: begin again at the last durable cursor
                if piece.messages:
                    stream.keep(lsn(durable["lsn"]))
        finally:
            reading.close()
            stream.close()


class _ChangeReader:
    """Reads one replication stream: its position, and the tables that it has described."""

    def __init__(self, uri: str, watch: TableWatch, chosen: Namespaces, *, cursor: dict[str, Any], end: int) -> None:
        """`end`: of the WAL when following began. Before that is reached, there may be changes that the server has yet to decode."""
        self._uri, self._watch, self._chosen = uri, watch, chosen
        self._problem: Differs | None = None  # raised once everything before it is returned
        self._lsn, self._skip = lsn(cursor["lsn"]), int(cursor.get("seen", 0))
        self._end, self._patience = end, time.monotonic() + DECODING
        self._fetched = 0  # bytes of large values that were read from the table for one change
        self._told = self._lsn  # the LSN of the last message
        self._index = 0  # changes of the open transaction so far
        self._open = False
        self._at = 0
        self._tables: dict[int, _FollowedTable] = {}
        self._session: PostgresSession | None = None

    def look(self) -> None:
        """Compare the tables with what they were. Errors: `Differs`."""
        self._ask(self._watch.check)

    def piece(self, stream: ReplicationStream) -> Piece:
        """The next changes. Errors: `Differs` for a table that is no longer what was copied."""
        if self._problem is not None:
            raise self._problem
        out: list[Message] = []
        size = 0
        waits = time.monotonic() + WAIT
        while size < piece_size(PIECE_BYTES) and len(out) < PIECE_MESSAGES:
            # Takes what has arrived; does not wait for more once there is a message.
            got = stream.receive(0.0 if out and not self._open else waits - time.monotonic())
            if got is None:
                break
            end, data = got
            if not data:
                # Between transactions, a keepalive's LSN is a safe cursor: no change before it is missed. Not inside of a transaction of
                # which a part was returned: `seen` counts from the LSN before it.
                if not self._open and not self._skip:
                    self._lsn = max(self._lsn, end)
                    if self._lsn - self._told >= IDLE_WAL:
                        break
                continue
            self._fetched = 0
            try:
                messages = self._messages(data)
            except Differs as problem:
                if not out:
                    raise
                self._problem = problem
                break
            out += messages
            size += len(data) + self._fetched + sum(map(names_size, messages))
        # An empty piece says that there is nothing new, and a run would end here, before changes that the server has still to decode.
        if not out and (self._lsn - self._told >= IDLE_WAL or size >= PIECE_BYTES or self._decoding()):
            out.append(Message(self._name(), {"lsn": lsn_text(self._lsn)}, Op.NOOP, 0, Mode.SYNC))
        if out:
            self._told = self._lsn
        # Changes that were returned before a restart count until all of them are skipped, however long the server takes to send them.
        return Piece(position={"lsn": lsn_text(self._lsn), "seen": max(self._index if self._open else 0, self._skip)}, messages=out)

    def _decoding(self) -> bool:
        """Whether the server has still to decode changes from before following began."""
        return (self._skip > 0 or self._lsn < self._end) and time.monotonic() < self._patience

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _name(self) -> str:
        return next((followed.namespace for followed in self._tables.values() if followed.namespace in self._chosen), "postgres")

    def _messages(self, data: bytes) -> list[Message]:
        event = decode(data)
        match event:
            case Begin(at=at):
                self._open, self._index, self._at = True, 0, at
            case Commit(end=end):
                self._open, self._lsn, self._index, self._skip = False, end, 0, 0
            case Relation():
                self._tables[event.oid] = self._followed(event)
            case RowChange():
                self._index += 1
                followed = self._tables[event.relation]
                if self._index > self._skip and followed.namespace in self._chosen:
                    return self._changed(followed, event)
            case Truncate():
                self._index += 1
                if self._index > self._skip:
                    names = [self._tables[oid].namespace for oid in event.relations if oid in self._tables]
                    return [
                        Message(name, {"command": "truncate"}, Op.COMMAND, self._at, Mode.SYNC) for name in names if name in self._chosen
                    ]
        return []

    def _changed(self, followed: _FollowedTable, change: RowChange) -> list[Message]:
        if change.new is None:
            assert change.old is not None
            return [self._message(followed, Op.DELETE, followed.document(change.old, only=followed.ids))]
        cells = change.new
        if change.old is not None:  # an unchanged key that is too large to be sent again: the old row has it
            cells = tuple(
                old if new is UNCHANGED and name in followed.ids else new
                for name, new, old in zip(followed.names, cells, change.old, strict=True)
            )
        data = followed.document(cells)
        out: list[Message] = []
        if change.kind == "update":
            if change.old is not None:
                before = followed.document(change.old)
                # Compared as they are written: 1.1 and 1.10 are equal numbers, and may be two rows of a sink.
                if any(values.canonical(before.get(name)) != values.canonical(data.get(name)) for name in followed.ids):
                    out.append(self._message(followed, Op.DELETE, {name: before.get(name) for name in followed.ids}))
                if change.whole:
                    data = {name: data.get(name, before.get(name)) for name in followed.names}
            if len(data) < len(followed.names):
                data = self._filled(followed, data, cells)
        # A changed key is a new document: the old one is deleted above.
        return [*out, self._message(followed, Op.INSERT if change.kind == "insert" or out else Op.UPDATE, data)]

    def _message(self, followed: _FollowedTable, op: Op, data: dict[str, Any]) -> Message:
        return Message(followed.namespace, data, op, self._at, Mode.SYNC, id_fields=followed.ids)

    def _filled(self, followed: _FollowedTable, data: dict[str, Any], cells: Sequence[Cell]) -> dict[str, Any]:
        """The document with the large values that the change did not touch, as they are now in the table. A row that is deleted by now
        has none; its delete follows."""
        columns = followed.table.columns if followed.table is not None else ()
        missing = [column for column in columns if column.name in followed.names and column.name not in data]
        if followed.table is None or not missing:
            return data
        tests: list[str] = []
        parameters: list[Any] = []
        for name in followed.ids:
            column = followed.table.column(name)
            if column is None:
                return data
            tests.append(f"t.{quote(name)} = %s::text::{column.declared}")
            parameters.append(cells[followed.names.index(name)])
        question = f"SELECT {document(missing).replace('%', '%%')} FROM {followed.table.quoted} t WHERE {' AND '.join(tests)}"
        text = (self._ask(lambda session: session.one(question, parameters)) or "{}").encode()
        self._fetched += len(text)
        complete = data | values.decode(text)
        return {name: complete[name] for name in followed.names if name in complete}

    def _followed(self, relation: Relation) -> _FollowedTable:
        oids = [kind for _, kind in relation.columns]
        kinds, now = self._ask(lambda session: (types(session, oids), table(session, relation.schema, relation.name)))
        followed = _FollowedTable(relation, kinds, now)
        self._ask(lambda session: self._watch.check_change(session, relation.oid, followed.namespace, followed.ids))
        return followed

    def _ask(self, question: Callable[[PostgresSession], T]) -> T:
        """Ask over a second connection, which stays open."""
        if self._session is None or self._session.link.closed:
            self._session = PostgresSession(self._uri)
            self._session.do(ALL_ROWS)
        try:
            return question(self._session)
        except self._session.fails as error:
            raise self._session.meaning(error) from error


class _FollowedTable:
    """A table as the stream describes it, with converters for its columns."""

    def __init__(self, relation: Relation, kinds: dict[int, Type], now: PostgresTable | None) -> None:
        self.namespace = f"{relation.schema}.{relation.name}"
        self.names = [name for name, _ in relation.columns]
        self._make = [converter(kinds.get(kind, Type("text"))) for _, kind in relation.columns]
        self.table = now
        # The present key, in its order, where the change has it: the table may have another key since.
        key = now.ids if now is not None else ()
        same_key = set(key) <= set(relation.key) if relation.full else set(key) == set(relation.key)
        self.ids = key if key and same_key else relation.key

    def document(self, cells: Sequence[Cell], only: Sequence[str] = ()) -> dict[str, Any]:
        """The row as JSON values, without those that were not sent."""
        return {
            name: make(cell) if isinstance(cell, str) else None
            for name, make, cell in zip(self.names, self._make, cells, strict=True)
            if cell is not UNCHANGED and (not only or name in only)
        }
