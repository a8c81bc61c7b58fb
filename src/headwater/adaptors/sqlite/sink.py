"""Writing to SQLite: the rows of a batch and its range of offsets in one synced transaction, so that a repeated batch is recognised."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import apsw
import msgspec

from headwater.adaptors.file.locations import file_locations, writes_file
from headwater.adaptors.sql.ranges import TakenRange, of_bucket
from headwater.adaptors.sql.state import SqlSinkState
from headwater.adaptors.sql.table import quote
from headwater.adaptors.sqlite.adaptor import Sqlite
from headwater.adaptors.sqlite.columns import RULES, cells, stored
from headwater.adaptors.sqlite.session import OWN, READ_NEAR, STATEMENTS, SqliteSession
from headwater.adaptors.sqlite.source import database_system, rows
from headwater.adaptors.sqlite.tables import Tables, upsert
from headwater.core.errors import BadConfig, ReadOnly, Rejected
from headwater.pipeline import values
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.column_check import ColumnCheck
from headwater.pipeline.columns import ColumnRules, ColumnType
from headwater.pipeline.location import EVERYWHERE, Location
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part, SinkAdaptor, SinkWriter, deliverable

_ACK = "Acknowledge it with `headwater pipeline ack`."


class SqliteSink(SinkAdaptor[Sqlite]):
    """The tables of a database file. Tables and columns are created as documents need them."""

    def check(self, chosen: Namespaces) -> list[str]:
        path = self.adaptor.file
        if not path.absolute().parent.is_dir():
            raise BadConfig(f"The folder {path.absolute().parent} of the database is not there.", hint="Make it first.")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise ReadOnly(f"{path} cannot be written by this process.", hint="Change its permissions, or name another file.")
        return [f"{path} can be written"]

    def writer(self, part: Part) -> SinkWriter:
        return SqliteWriter(self.adaptor, part)

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        if not self.adaptor.file.exists():
            return None
        with SqliteSession(str(self.adaptor.file), read_only=True) as session:
            return SqlSinkState.owner(session, STATEMENTS, pipeline, sink)

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        with SqliteSession(str(self.adaptor.file)) as session:
            SqlSinkState(session, STATEMENTS, mine.pipeline, mine.sink).claim(mine, former)
        return True

    def held(self, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
        if not self.adaptor.file.exists():
            return []
        with SqliteSession(str(self.adaptor.file), read_only=True) as session:
            return SqlSinkState.held(session, STATEMENTS, pipeline, sink)

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        with SqliteSession(str(self.adaptor.file)) as session:
            return SqlSinkState(session, STATEMENTS, pipeline, sink).begin(epoch)

    def seen(self, part: Part) -> bool:
        if not self.adaptor.file.exists():
            return False
        with SqliteSession(str(self.adaptor.file), read_only=True) as session:
            return SqlSinkState(session, STATEMENTS, part.pipeline, part.sink, make=False).begun()

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        """Offsets above `position` count as not taken; rows stay, and are written over. Errors: `Fenced` where a newer run writes."""
        with SqliteSession(str(self.adaptor.file)) as session:
            SqlSinkState(session, STATEMENTS, pipeline, sink).forget(position, epoch)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return {name: stored(value) for name, value in data.items() if value is not None}

    def identified(self, message: Message, pipeline: str) -> tuple[Any, dict[str, Any]]:
        identity = message.id  # an object is stored as text: the order of its fields tells rows apart
        return ([values.store({"_id": identity}).decode()] if isinstance(identity, dict | list) else identity), message.data

    def column_rules(self) -> ColumnRules | None:
        return RULES

    def columns_of(self, place: str) -> Collection[str]:
        if not self.adaptor.file.exists():
            return ()
        with SqliteSession(str(self.adaptor.file), read_only=True) as session:
            return Tables(session.db).columns(place)

    def tables_among(self, places: Collection[str]) -> set[str] | None:
        if not self.adaptor.file.exists():
            return set()
        with SqliteSession(str(self.adaptor.file), read_only=True) as session:
            return {str(name) for (name,) in session.ask("select name from sqlite_master where type = 'table'")} & set(places)

    def place(self, namespace: str) -> str:
        return self.adaptor.table or namespace

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        inside = database_system(self.adaptor)
        locations = [place for place in reads if place.system == inside]
        if not locations and writes_file(self.adaptor.file, reads):  # a source of files would read the database as a file
            return [EVERYWHERE]
        return [place for place in locations if place.name]

    def exclusive(self) -> list[Location]:
        """The file, which only sinks of this adaptor share; and the table, in which the rows of two sinks would replace each other."""
        adaptor = self.adaptor
        table = [] if adaptor.table is None else [Location(database_system(adaptor), adaptor.table, folded=True)]
        return [*(msgspec.structs.replace(location, shared=True) for location in file_locations(adaptor.file)), *table]

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        return rows(self.adaptor, self.place(namespace))


class _Change(NamedTuple):
    """Rows for one table, ready to be written; a command, which empties the table, has none."""

    table: str
    op: Op
    ids: tuple[str, ...]
    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    types: Mapping[str, ColumnType] = {}
    offset: int = -1  # of its first message


class SqliteWriter(SinkWriter):
    """Writes one part. Tables and columns are created within the transaction of the batch that needs them."""

    def __init__(self, adaptor: Sqlite, part: Part) -> None:
        self._adaptor, self._part = adaptor, part
        self._session = SqliteSession(str(adaptor.file), timeout=part.timeout)
        # The state's tables were created when the run began. Where they are gone, the database was replaced: nothing counts as taken.
        self._state = SqlSinkState(self._session, STATEMENTS, part.pipeline, part.sink, make=False)
        self._tables = Tables(self._session.db)
        self._check = ColumnCheck(part.columns, RULES)

    def write(self, batch: Batch) -> None:
        try:
            changes = [self._prepared(table, op, list(group)) for (table, op, _), group in self._groups(batch)]  # before the lock
            with self._session.transaction():
                self._state.shared(self._part.epoch)
                if self._part.again or self._taken(batch):
                    for change in changes:
                        self._apply(change)
        except BaseException as error:
            self._tables.forget()  # what was created within the transaction is gone
            if not isinstance(error, apsw.Error):
                raise
            if self._session.about_data(error):
                raise Rejected(f"SQLite refuses it: {error}.", offset=-1) from error
            raise self._session.meaning(error) from error

    def _taken(self, batch: Batch) -> bool:
        """Insert the batch's range. Returns False where all of it was taken before, by this bucket or by all.

        Ranges that touch are merged, so there are few, and a message costs the same after a million others.
        """
        span = TakenRange(batch.start, batch.end, self._part.bucket, self._part.buckets)
        near = [TakenRange(*row) for row in self._session.ask(READ_NEAR, (*self._state.me, span.end, span.start))]
        if any(start <= span.start and span.end <= end for start, end in of_bucket(near, span.bucket, span.buckets)):
            return False
        self._state.join(span, near)
        return True

    # -- rows -----------------------------------------------------------------------------------------------

    def _groups(self, batch: Batch) -> Iterator[tuple[tuple[str, Op, tuple[str, ...]], Iterator[Message]]]:
        """Consecutive messages of one table, one kind of change and the same id fields."""

        def kind(message: Message) -> tuple[str, Op, tuple[str, ...]]:
            op = Op.INSERT if message.op == Op.UPDATE else message.op
            return self._adaptor.table or message.namespace, op, message.id_fields

        return groupby(filter(deliverable, batch.messages), kind)

    def _prepared(self, table: str, op: Op, messages: list[Message]) -> _Change:
        """Errors: `Rejected` for a document without its id, for a value that its column does not hold, for a command that is not known, and
        for a table that says what the sink has taken; `NeedsColumns`."""
        if table.lower() in OWN:
            hint = f'Give the namespace another name: remap({{"{messages[0].namespace}": ...}}).'
            raise Rejected(f"{table} is a table of the sink's own.", offset=messages[0].offset, untouched=True, hint=hint)
        if op == Op.COMMAND:
            for message in messages:
                self._check_command(table, message)
            return _Change(table, op, (), (), [], offset=messages[0].offset)
        delete = op == Op.DELETE
        ids, documents = messages[0].id_fields, [message.data for message in messages]
        names = ids if delete else tuple(documents[0])
        alike = not delete and all(tuple(document) == names for document in documents)  # usual: every document has the same fields
        if not alike and not delete:
            names = tuple(dict.fromkeys(name for document in documents for name in document))
        rows = (
            [tuple(document.values()) for document in documents] if alike else [tuple(map(document.get, names)) for document in documents]
        )
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for name in ids:
            column = columns[names.index(name)] if name in names else [None]
            if None in column:
                raise Rejected(
                    f"The document has no {name}, which identifies documents of {table}.",
                    offset=messages[column.index(None)].offset,
                    untouched=True,
                    hint="Name the right fields with the source's option id.",
                )
        by_name = dict(zip(names, columns, strict=True))
        declared = self._check.table(table).columns
        existing = {name for name in self._tables.columns(table) if name not in declared}
        types = self._check.checked(table, messages, by_name, given=existing).columns
        # A field that was never more than null has no column.
        stored_names = tuple(name for name in names if name in types or name in existing)
        converted = [cells(by_name[name], types.get(name)) for name in stored_names]
        if stored_names != names or any(now is not was for now, was in zip(converted, columns, strict=True)):
            rows = list(zip(*converted, strict=True))
        return _Change(table, op, ids, stored_names, rows, types, messages[0].offset)

    def _check_command(self, table: str, message: Message) -> None:
        command = values.encode(message.data).decode()[:200]
        if message.data.get("command") != "truncate":
            raise Rejected(f"SQLite does not know the command {command}.", offset=message.offset, untouched=True, hint=_ACK)
        if self._adaptor.table is not None:
            raise Rejected(
                f"A truncate of {message.namespace} would empty {table}, which all namespaces share.",
                offset=message.offset,
                untouched=True,
                hint=_ACK,
            )

    def _apply(self, change: _Change) -> None:
        table, op, ids, names, rows, types, offset = change
        if self._adaptor.table is None and (spelled := self._tables.spelling(table)) != table:  # it would get the rows of both
            raise Rejected(
                f"SQLite takes {table} for the table {spelled}, which belongs to another namespace: it ignores the case of letters.",
                offset=offset,
                untouched=True,
                hint=f'Give the namespace another name: remap({{"{table}": ...}}).',
            )
        if not self._tables.columns(table):
            self._check.refuse_gone(table)
        if op == Op.COMMAND:
            self._tables.empty(table)
        elif op != Op.DELETE:
            every = self._tables.ready(table, ids, names, types)
            self._session.db.executemany(upsert(table, names, ids, every), rows)
        elif self._tables.exists(table):
            where = " and ".join(f"{quote(name)} = ?" for name in ids)
            self._session.db.executemany(f"delete from {quote(table)} where {where}", rows)

    def close(self) -> None:
        self._session.close()
