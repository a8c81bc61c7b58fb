"""Writing to PostgreSQL: upserts and deletes, and what was taken, in one transaction per batch. So each batch counts once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headwater.core.errors import BadConfig, NotFound, Rejected
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, Part, SinkWriter, deliverable
from headwater.pipeline.message import Message, Op
from headwater.pipeline.systems.postgres import sql as sql
from headwater.pipeline.systems.postgres.link import Deadline, about_data, connect, library, meaning, place, translated
from headwater.pipeline.systems.postgres.rows import Shape
from headwater.pipeline.systems.postgres.state import fenced, make_state, tidy
from headwater.pipeline.systems.postgres.tables import Table, quote, split_name, table
from headwater.pipeline.systems.sql.infer import fields
from headwater.pipeline.systems.sql.ranges import Taken, contains, of_bucket

_NO_KEY: tuple[str, ...] = ()
_NO_ROW: dict[str, Any] = {}
_NO_NAMES: frozenset[str] = frozenset()


class Run:
    """Messages of one table and one kind, in order, no id twice: one statement."""

    def __init__(self, table: Table, op: str, key: tuple[str, ...], absent: frozenset[str]) -> None:
        self.table, self.op, self.key, self.absent = table, op, key, absent
        self.rows: list[dict[str, Any]] = []
        self.ids: set[tuple[str, ...]] = set()

    def fits(self, table: Table, op: str, key: tuple[str, ...], absent: frozenset[str], own: tuple[str, ...] | None) -> bool:
        return self.table is table and (self.op, self.key, self.absent) == (op, key, absent) and (own is None or own not in self.ids)


class PostgresWriter(SinkWriter):
    """Writes one part."""

    def __init__(self, uri: str, part: Part, *, schema: str, state: str, create: bool) -> None:
        self._part, self._schema, self._state, self._create = part, schema, state, create
        self._where = place(uri)
        self._link = connect(uri)
        self._shapes: dict[str, Shape] = {}
        self._open = self._text(sql.OPEN)
        with translated(self._where):
            make_state(self._link, state)
            tidy(self._link, state, part)
            self._link.execute("SELECT set_config('statement_timeout', %s, false)", (str(int(part.timeout * 1000)),))

    def write(self, batch: Batch) -> None:
        psycopg = library()
        with Deadline(self._link, self._part.timeout, self._where) as deadline:
            try:
                self._ready(batch.messages)
                try:
                    with self._link.transaction():
                        self._apply(self._remaining(batch))
                except (psycopg.Error, Rejected) as error:
                    if isinstance(error, psycopg.Error) and not about_data(error):
                        raise
                    self._write_before_refused(batch)
            except psycopg.Error as error:
                if deadline.passed:
                    raise deadline.error() from error
                if about_data(error):  # seen at the commit only, as by a deferred constraint: which message it is, one by one tells
                    offset = batch.messages[0].offset if len(batch.messages) == 1 else -1
                    raise Rejected(f"The batch is refused at its commit: {' '.join(str(error).split())}", offset=offset) from error
                raise meaning(error, self._where) from error

    def close(self) -> None:
        self._link.close()

    # -- one transaction ------------------------------------------------------------------------------------

    def _remaining(self, batch: Batch) -> list[Message]:
        """Open the batch: shut out older runs, note it as taken, and return what of it is not there yet."""
        part = self._part
        me = (part.pipeline, part.sink)
        wanted = [one for one in batch.messages if deliverable(one)]
        if part.again:  # nothing is noted, and what was noted does not count
            row = self._link.execute(self._text(sql.READ_EPOCH), me).fetchone()
            if row is not None and row[0] > part.epoch:
                raise fenced(part.pipeline, row[0], part.epoch)
            return wanted
        given = (*me, *me, batch.start, batch.end, part.bucket, part.buckets, part.epoch, *me, batch.start, batch.end)
        row = self._link.execute(self._open, given).fetchone()
        assert row is not None
        epoch, noted, near = row
        if epoch is None:  # nobody has begun a run: stepping may come first
            self._link.execute(self._text(sql.FIRST_EPOCH), (*me, part.epoch))
            return self._remaining(batch)
        if epoch > part.epoch:
            raise fenced(part.pipeline, epoch, part.epoch)
        if not noted:
            return []
        done = of_bucket((Taken(*one) for one in near), part.bucket, part.buckets) if near else []
        return [one for one in wanted if not contains(done, one.offset)] if done else wanted

    def _apply(self, messages: Sequence[Message]) -> None:
        for run in self._runs(messages):
            if run.op == "truncate":
                self._link.execute(f"TRUNCATE {run.table.quoted}")
                continue
            text = sql.delete(run.table, run.key) if run.op == "delete" else sql.upsert(run.table, run.key, run.absent)
            self._link.execute(text, (values.encode(run.rows).decode(),))

    def _write_before_refused(self, batch: Batch) -> None:
        """Somewhere in the batch is a message that the table refuses: take all before it, and say which it is."""
        psycopg = library()
        part = self._part
        with self._link.transaction():
            remaining = self._remaining(batch)
            found = self._first_refused(remaining)
            if found is None:  # what was in the way has gone meanwhile
                return
            message, error = found
            if not part.again:
                me = (part.pipeline, part.sink)
                self._link.execute(self._text(sql.UNTAKE), (*me, batch.start, batch.end, part.bucket, part.buckets))
                if message.offset > batch.start:
                    self._link.execute(self._text(sql.TAKE), (*me, batch.start, message.offset, part.bucket, part.buckets))
        said = str(error) if isinstance(error, psycopg.Error) else error.message
        raise Rejected(
            f"{message.namespace} refuses the message: {' '.join(said.split())}",
            offset=message.offset,
            before_taken=True,
            hint=error.hint if isinstance(error, Rejected) else "Correct it with `headwater pipeline edit`, or the table.",
        ) from error

    def _first_refused(self, messages: Sequence[Message]) -> tuple[Message, Any] | None:
        """Halve until the message is found. Everything before it is applied, inside the transaction that is open."""
        psycopg = library()
        try:
            with self._link.transaction():  # a savepoint
                self._apply(messages)
        except (psycopg.Error, Rejected) as error:
            if isinstance(error, psycopg.Error) and not about_data(error):
                raise
            if len(messages) == 1:
                return messages[0], error
            middle = len(messages) // 2
            return self._first_refused(messages[:middle]) or self._first_refused(messages[middle:])
        return None

    # -- messages to rows -----------------------------------------------------------------------------------

    def _runs(self, messages: Sequence[Message]) -> Iterator[Run]:
        run: Run | None = None
        for message in messages:
            shape = self._shapes[message.namespace]
            op, key, row, absent = "upsert", _NO_KEY, _NO_ROW, _NO_NAMES
            if message.op == Op.DELETE:
                op = "delete"
                key, row = shape.deleted(message)
            elif message.op != Op.COMMAND:
                key, row, absent = shape.written(message)
            elif message.data.get("command") == "truncate":
                op = "truncate"
            else:
                raise Rejected(f"The command {message.data} is not known here.", offset=message.offset)
            own = tuple([str(row[name]) for name in key]) if key else None
            if run is None or not run.fits(shape.table, op, key, absent, own):
                if run is not None:
                    yield run
                run = Run(shape.table, op, key, absent)
            run.rows.append(row)
            if own is not None:
                run.ids.add(own)
        if run is not None:
            yield run

    # -- tables -----------------------------------------------------------------------------------------------

    def _ready(self, messages: Sequence[Message]) -> None:
        """Know every table before the transaction begins: one that makes tables inside of it could wait for another for ever."""
        by_name: dict[str, list[Message]] = {}
        for message in messages:
            if deliverable(message):
                by_name.setdefault(message.namespace, []).append(message)
        for namespace, own in by_name.items():
            if namespace not in self._shapes:
                self._shapes[namespace] = Shape(self._find(namespace, own))
            if self._create:
                known = {column.name for column in self._shapes[namespace].table.columns}
                written = [one.data for one in own if one.op in (Op.INSERT, Op.UPDATE)]
                if any(not document.keys() <= known for document in written):
                    new = {name: kind for name, kind in fields(written).items() if name not in known}
                    self._link.execute(sql.add_columns(self._shapes[namespace].table, new))
                    self._shapes[namespace] = Shape(self._find(namespace, own))

    def _find(self, namespace: str, messages: Sequence[Message]) -> Table:
        schema, name = split_name(namespace, self._schema)
        found = table(self._link, schema, name)
        if found is None and self._create:
            documents = [one.data for one in messages if one.op in (Op.INSERT, Op.UPDATE)]
            key = messages[0].id_fields if all(one.id is not None for one in messages) else ()
            try:
                self._link.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
                self._link.execute(sql.create_table(schema, name, fields(documents or [one.data for one in messages]), key))
            except (library().errors.UniqueViolation, library().errors.DuplicateTable):
                pass  # another task was quicker
            found = table(self._link, schema, name)
        if found is None:
            raise NotFound(
                f"PostgreSQL at {self._where} has no table {schema}.{name}.",
                hint="Create it, or let headwater do so: postgres(..., create=True). A `remap` changes the name.",
            )
        if not found.key and not found.unique and any(one.id is not None for one in messages):
            raise BadConfig(
                f"The table {found.namespace} has neither a primary key nor a unique index, so rows cannot be replaced.",
                hint="Add a primary key on the columns that tell documents apart.",
            )
        return found

    def _text(self, statement: str) -> str:
        return statement.format(state=quote(self._state))
