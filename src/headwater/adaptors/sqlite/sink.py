"""Writing to SQLite: a batch's rows and its range of offsets in one synced transaction, so that a batch that comes twice is seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.adaptors.sqlite.tables import (
    MAKE,
    RANGES,
    RUNS,
    Tables,
    cells,
    connect,
    is_machine_error,
    machine_error,
    quoted,
    upsert,
)
from headwater.core.errors import Fenced, Rejected
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, Part, SinkWriter, deliverable
from headwater.pipeline.message import Message, Op

if TYPE_CHECKING:
    from headwater.adaptors.sqlite.adaptor import Sqlite

_ACK = "Acknowledge it with `headwater pipeline ack`."


def begin(adaptor: Sqlite, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]]:
    """Shut older runs out; the ranges that are there, small ones joined so that they stay few."""
    path = str(adaptor.path)
    db = connect(path)
    try:
        db.executescript(MAKE)
        db.execute("begin immediate")
        _own(db, path, pipeline, sink, epoch)
        whole = _whole(db, pipeline, sink)
        db.execute(f"delete from {RANGES} where pipeline = ? and sink = ?", (pipeline, sink))
        db.executemany(f"insert into {RANGES} values (?, ?, ?, ?, 0, 1)", [(pipeline, sink, start, stop) for start, stop in whole])
        db.execute("commit")
        return whole
    except sqlite3.Error as error:
        raise machine_error(error, path) from error
    finally:
        db.close()


def forget(adaptor: Sqlite, pipeline: str, sink: str, position: int, epoch: int) -> None:
    """Offsets above `position` count as not taken; rows stay, and are written over. Errors: `Fenced` where a newer run writes."""
    path = str(adaptor.path)
    db = connect(path)
    try:
        db.executescript(MAKE)
        db.execute("begin immediate")
        _own(db, path, pipeline, sink, epoch)
        kept = [(start, min(stop, position + 1)) for start, stop in _whole(db, pipeline, sink) if start <= position]
        db.execute(f"delete from {RANGES} where pipeline = ? and sink = ?", (pipeline, sink))
        db.executemany(f"insert into {RANGES} values (?, ?, ?, ?, 0, 1)", [(pipeline, sink, start, stop) for start, stop in kept])
        db.execute("commit")
    except sqlite3.Error as error:
        raise machine_error(error, path) from error
    finally:
        db.close()


def _own(db: sqlite3.Connection, path: str, pipeline: str, sink: str, epoch: int) -> None:
    found = db.execute(f"select epoch from {RUNS} where pipeline = ? and sink = ?", (pipeline, sink)).fetchone()
    if found is not None and found[0] > epoch:
        raise Fenced(f"A newer run writes to {path}.", hint="See `headwater pipeline status`.")
    if found is None or found[0] < epoch:
        db.execute(f"insert or replace into {RUNS} values (?, ?, ?)", (pipeline, sink, epoch))


def _whole(db: sqlite3.Connection, pipeline: str, sink: str) -> list[tuple[int, int]]:
    """Ranges of which every share is there, joined where they touch."""
    from headwater.pipeline.offsets.ranges import joined

    rows = db.execute(
        f"select start, stop from {RANGES} where pipeline = ? and sink = ? group by start, stop, buckets having count(*) = buckets",
        (pipeline, sink),
    ).fetchall()
    return joined(rows)


class _Change(NamedTuple):
    """Rows for one table, ready to be written; of a command, which empties the table, none."""

    table: str
    op: Op
    ids: tuple[str, ...]
    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class SqliteWriter(SinkWriter):
    """One part. Tables and columns are made within the transaction of the batch that needs them."""

    takes_text = False

    def __init__(self, adaptor: Sqlite, part: Part) -> None:
        self._adaptor, self._part, self._path = adaptor, part, str(adaptor.path)
        self._db = connect(self._path, timeout=part.timeout)
        self._tables = Tables(self._db)

    def write(self, batch: Batch) -> None:
        part = self._part
        changes = [self._prepared(table, op, list(group)) for (table, op, _), group in self._groups(batch)]  # others need not wait
        try:
            self._db.execute("begin immediate")
            _own(self._db, self._path, part.pipeline, part.sink, part.epoch)
            before = self._before(batch)
            if not part.again and self._taken(batch, before):
                self._db.execute("rollback")
                return
            for change in changes:
                self._apply(change)
            if not part.again:
                self._note(batch, before)
            self._db.execute("commit")
        except sqlite3.Error as error:
            self._undo()
            if is_machine_error(error):
                raise machine_error(error, self._path, waited=part.timeout) from error
            raise Rejected(f"SQLite refuses it: {error}", offset=-1) from error
        except BaseException:
            self._undo()
            raise

    # -- what was taken -------------------------------------------------------------------------------------
    # Ranges that are there whole neither overlap nor touch, so they are few, and the last one that begins no later than a batch is the
    # only one that can hold it: a message costs the same after a million others.

    def _before(self, batch: Batch) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self._db.execute(
            f"select start, stop from {RANGES} where pipeline = ? and sink = ? and start <= ? and buckets = 1 order by start desc limit 1",
            (self._part.pipeline, self._part.sink, batch.start),
        ).fetchone()
        return found

    def _taken(self, batch: Batch, before: tuple[int, int] | None) -> bool:
        if before is not None and before[1] >= batch.end:
            return True
        part = self._part
        return part.buckets > 1 and bool(
            self._db.execute(
                f"select 1 from {RANGES} where pipeline = ? and sink = ? and start = ? and stop = ? and bucket = ? and buckets = ?",
                (part.pipeline, part.sink, batch.start, batch.end, part.bucket, part.buckets),
            ).fetchone()
        )

    def _note(self, batch: Batch, before: tuple[int, int] | None) -> None:
        """A share becomes part of what is whole once the others are there; what is whole joins what it touches."""
        part, start, stop = self._part, batch.start, batch.end
        mine = (part.pipeline, part.sink)
        if part.buckets > 1:
            self._db.execute(f"insert into {RANGES} values (?, ?, ?, ?, ?, ?)", (*mine, start, stop, part.bucket, part.buckets))
            shares = f"from {RANGES} where pipeline = ? and sink = ? and start = ? and stop = ? and buckets = ?"
            of = (*mine, start, stop, part.buckets)
            if self._db.execute(f"select count(*) {shares}", of).fetchone()[0] < part.buckets:
                return
            self._db.execute(f"delete {shares}", of)
        if before is not None and before[1] >= start:
            start, stop = before[0], max(stop, before[1])
            longer = f"update {RANGES} set stop = ?3 where pipeline = ?1 and sink = ?2 and start = ?4 and buckets = 1 and not exists "
            longer += f"(select 1 from {RANGES} where pipeline = ?1 and sink = ?2 and start > ?4 and start <= ?3 and buckets = 1)"
            if self._db.execute(longer, (*mine, stop, start)).rowcount:  # the rule: it touches nothing behind it
                return
        touched = f"from {RANGES} where pipeline = ? and sink = ? and start >= ? and start <= ? and buckets = 1"
        furthest = self._db.execute(f"select max(stop) {touched}", (*mine, start, stop)).fetchone()[0]
        self._db.execute(f"delete {touched}", (*mine, start, stop))
        self._db.execute(f"insert into {RANGES} values (?, ?, ?, ?, 0, 1)", (*mine, start, max(stop, furthest or stop)))

    # -- rows -----------------------------------------------------------------------------------------------

    def _groups(self, batch: Batch) -> Iterator[tuple[tuple[str, Op, tuple[str, ...]], Iterator[Message]]]:
        """Consecutive messages of one table, one kind and the same fields as their id."""

        def kind(message: Message) -> tuple[str, Op, tuple[str, ...]]:
            op = Op.INSERT if message.op == Op.UPDATE else message.op
            return self._adaptor.table or message.namespace, op, message.id_fields

        return groupby(filter(deliverable, batch.messages), kind)

    def _prepared(self, table: str, op: Op, messages: list[Message]) -> _Change:
        """Errors: `Rejected` for a document without its id, and for a command that is not known."""
        if op == Op.COMMAND:
            for message in messages:
                self._check_command(table, message)
            return _Change(table, op, (), (), [])
        delete = op == Op.DELETE
        ids, documents = messages[0].id_fields, [message.data for message in messages]
        names = ids if delete else tuple(documents[0])
        alike = not delete and all(tuple(one) == names for one in documents)  # the rule: every document has the same fields
        if not alike and not delete:
            names = tuple(dict.fromkeys(name for one in documents for name in one))
        rows = [tuple(one.values()) for one in documents] if alike else [tuple(map(one.get, names)) for one in documents]
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for name in ids:
            column = columns[names.index(name)] if name in names else [None]
            if None in column:
                raise Rejected(
                    f"The document has no {name}, which tells documents of {table} apart.",
                    offset=messages[column.index(None)].offset,
                    hint="Name the right fields with the source's option id.",
                )
        converted = [cells(column) for column in columns]
        if any(now is not was for now, was in zip(converted, columns, strict=True)):
            rows = list(zip(*converted, strict=True))
        return _Change(table, op, ids, names, rows)

    def _check_command(self, table: str, message: Message) -> None:
        said = values.encode(message.data).decode()[:200]
        if message.data.get("command") != "truncate":
            raise Rejected(f"The command {said} is not known here.", offset=message.offset, hint=_ACK)
        if self._adaptor.table is not None:
            raise Rejected(f"{message.namespace} is emptied, and {table} may hold others' rows, too.", offset=message.offset, hint=_ACK)

    def _apply(self, change: _Change) -> None:
        table, op, ids, names, rows = change
        if op == Op.COMMAND:
            self._tables.empty(table)
        elif op != Op.DELETE:
            every = self._tables.ready(table, ids, names)
            self._db.executemany(upsert(table, names, ids, every), rows)
        elif self._tables.exists(table):
            where = " and ".join(f"{quoted(name)} = ?" for name in ids)
            self._db.executemany(f"delete from {quoted(table)} where {where}", rows)

    def _undo(self) -> None:
        self._tables.forget()
        if self._db.in_transaction:
            self._db.execute("rollback")

    def close(self) -> None:
        self._db.close()
