"""Writing to MariaDB and MySQL: upserts and deletes, and what was taken, in one transaction per batch. So each batch counts once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from headwater.core.errors import BadConfig, NotFound, Rejected, Timeout
from headwater.pipeline.adaptor import Batch, Part, SinkWriter, deliverable
from headwater.pipeline.message import Message, Op
from headwater.pipeline.systems.mysql import sql as sql
from headwater.pipeline.systems.mysql.link import Where, about_data, ask, code_of, connect, do, library, meaning, quote
from headwater.pipeline.systems.mysql.rows import Shape
from headwater.pipeline.systems.mysql.state import fenced, make_state, tidy, transaction
from headwater.pipeline.systems.mysql.tables import Table, split_name, table
from headwater.pipeline.systems.sql.infer import fields
from headwater.pipeline.systems.sql.ranges import Taken, contains, of_bucket

_NO_NAMES: frozenset[str] = frozenset()
STATEMENT = 4 << 20  # bytes of one statement, about: servers refuse very long ones


class Run:
    """Messages of one table and one kind, in order: a few statements."""

    def __init__(self, shape: Shape, op: str, key: tuple[str, ...], absent: frozenset[str]) -> None:
        self.shape, self.op, self.key, self.absent = shape, op, key, absent
        self.rows: list[list[Any]] = []

    def fits(self, shape: Shape, op: str, key: tuple[str, ...], absent: frozenset[str]) -> bool:
        return self.shape is shape and (self.op, self.key, self.absent) == (op, key, absent)


class MySQLWriter(SinkWriter):
    """Writes one part."""

    def __init__(self, where: Where, part: Part, *, create: bool) -> None:
        self._part, self._where, self._create = part, where, create
        self._shapes: dict[str, Shape] = {}
        # A server that does not answer at all is noticed by the socket's own timeout.
        self._link = connect(where, read_timeout=part.timeout, write_timeout=part.timeout)
        pymysql = library()
        try:
            do(self._link, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")  # fewer locks between rows: less waiting side by side
            do(self._link, f"SET SESSION innodb_lock_wait_timeout = {max(1, math.ceil(part.timeout))}")
            make_state(self._link)
            tidy(self._link, part)
        except pymysql.MySQLError as error:
            self._link.close()
            raise meaning(error, where) from error

    def write(self, batch: Batch) -> None:
        pymysql = library()
        began = time.monotonic()
        try:
            self._ready(batch.messages)
            try:
                with transaction(self._link):
                    self._apply(self._remaining(batch))
            except (pymysql.MySQLError, Rejected) as error:
                if isinstance(error, pymysql.MySQLError) and not about_data(error):
                    raise
                self._write_before_refused(batch)
        except (pymysql.MySQLError, OSError) as error:
            if time.monotonic() - began >= self._part.timeout or code_of(error) in (1205, 1969):
                raise Timeout(
                    f"MySQL at {self._where} did not take a batch within the timeout of {self._part.timeout:g} s.",
                    hint="Give the sink a longer `timeout`, or a smaller `batch`.",
                ) from error
            raise meaning(error, self._where) from error

    def close(self) -> None:
        if self._link.open:
            self._link.close()

    # -- one transaction ------------------------------------------------------------------------------------

    def _remaining(self, batch: Batch) -> list[Message]:
        """Open the batch: shut out older runs, note it as taken, and return what of it is not there yet."""
        part, link = self._part, self._link
        me = (part.pipeline, part.sink)
        found = ask(link, sql.READ_EPOCH, me)
        if not found:  # nobody has begun a run: stepping may come first
            do(link, sql.FIRST_EPOCH, (*me, part.epoch))
            found = ask(link, sql.READ_EPOCH, me)
        if found[0][0] > part.epoch:
            raise fenced(part.pipeline, found[0][0], part.epoch)
        wanted = [one for one in batch.messages if deliverable(one)]
        if part.again:
            return wanted
        span = (batch.start, batch.end, part.bucket, part.buckets)
        if not do(link, sql.TAKE, (*me, *span)):
            return []
        near = [one for row in ask(link, sql.READ_NEAR, (*me, batch.start, batch.end)) if (one := Taken(*row)) != Taken(*span)]
        done = of_bucket(near, part.bucket, part.buckets)
        return [one for one in wanted if not contains(done, one.offset)] if done else wanted

    def _apply(self, messages: Sequence[Message]) -> None:
        for run in self._runs(messages):
            one = run.shape.table
            if run.op == "truncate":
                do(self._link, f"DELETE FROM {one.quoted}")  # TRUNCATE would commit what is not finished
            elif run.op == "delete":
                for at in range(0, len(run.rows), 500):
                    page = run.rows[at : at + 500]
                    do(self._link, sql.delete(one, run.key, len(page)), [value for row in page for value in row])
            elif run.key and one.others:
                self._replace_each(run)
            else:
                self._insert(run)

    def _insert(self, run: Run) -> None:
        """Many rows with one statement. Where the key is the only unique index, a row that is there is replaced."""
        link, one = self._link, run.shape.table
        names = run.shape.names(run.absent)
        first = sql.insert(one, names).replace("%%", "%")
        last = sql.on_conflict(one, names, run.key, run.absent).replace("%%", "%") if run.key else ""
        page: list[str] = []
        size = 0
        for row in run.rows:
            text = f"({','.join([link.escape(value) for value in row])})"
            page.append(text)
            size += len(text)
            if size >= STATEMENT:
                do(link, first + ",".join(page) + last)
                page, size = [], 0
        if page:
            do(link, first + ",".join(page) + last)

    def _replace_each(self, run: Run) -> None:
        """Row by row: with a second unique index, ON DUPLICATE KEY could replace another document's row."""
        names = run.shape.names(run.absent)
        update = sql.update(run.shape.table, names, run.key, run.absent)
        insert = sql.insert(run.shape.table, names) + f"({', '.join(['%s'] * len(names))})"
        for row in run.rows:
            by_name = dict(zip(names, row, strict=True))
            given = [value for name, value in by_name.items() if name not in run.key] + [by_name[name] for name in run.key]
            if not do(self._link, update, given):
                do(self._link, insert, row)

    def _write_before_refused(self, batch: Batch) -> None:
        """Somewhere in the batch is a message that the table refuses: take all before it, and say which it is."""
        pymysql = library()
        part = self._part
        with transaction(self._link):
            found = self._first_refused(self._remaining(batch), 0)
            if found is None:  # what was in the way has gone meanwhile
                return
            message, error = found
            if not part.again:
                do(self._link, sql.UNTAKE, (part.pipeline, part.sink, batch.start, batch.end, part.bucket, part.buckets))
                if message.offset > batch.start:
                    do(self._link, sql.TAKE, (part.pipeline, part.sink, batch.start, message.offset, part.bucket, part.buckets))
        said = str(error.args[-1]) if isinstance(error, pymysql.MySQLError) else error.message
        raise Rejected(
            f"{message.namespace} refuses the message: {said}",
            offset=message.offset,
            before_taken=True,
            hint=error.hint if isinstance(error, Rejected) else "Correct it with `headwater pipeline edit`, or the table.",
        ) from error

    def _first_refused(self, messages: Sequence[Message], depth: int) -> tuple[Message, Any] | None:
        """Halve until the message is found. Everything before it is applied, inside the transaction that is open."""
        pymysql = library()
        point = f"headwater_{depth}"
        do(self._link, f"SAVEPOINT {point}")
        try:
            self._apply(messages)
        except (pymysql.MySQLError, Rejected) as error:
            if isinstance(error, pymysql.MySQLError) and not about_data(error):
                raise
            do(self._link, f"ROLLBACK TO SAVEPOINT {point}")
            if len(messages) == 1:
                return messages[0], error
            middle = len(messages) // 2
            return self._first_refused(messages[:middle], depth + 1) or self._first_refused(messages[middle:], depth + 1)
        do(self._link, f"RELEASE SAVEPOINT {point}")
        return None

    def _runs(self, messages: Sequence[Message]) -> Iterator[Run]:
        run: Run | None = None
        for message in messages:
            shape = self._shapes[message.namespace]
            op, absent = "upsert", _NO_NAMES
            key: tuple[str, ...] = ()
            row: list[Any] = []
            if message.op == Op.DELETE:
                op = "delete"
                key, row = shape.deleted(message)
            elif message.op != Op.COMMAND:
                key, row, absent = shape.written(message)
            elif message.data.get("command") == "truncate":
                op = "truncate"
            else:
                raise Rejected(f"The command {message.data} is not known here.", offset=message.offset)
            if run is None or not run.fits(shape, op, key, absent):
                if run is not None:
                    yield run
                run = Run(shape, op, key, absent)
            run.rows.append(row)
        if run is not None:
            yield run

    # -- tables -----------------------------------------------------------------------------------------------

    def _ready(self, messages: Sequence[Message]) -> None:
        """Know every table before the transaction begins: making one would commit what is not finished."""
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
                if any(not one.keys() <= known for one in written):
                    self._add_columns(self._shapes[namespace].table, written, known)
                    self._shapes[namespace] = Shape(self._find(namespace, own))

    def _add_columns(self, one: Table, written: list[dict[str, Any]], known: set[str]) -> None:
        for name, kind in fields(written).items():
            if name not in known:
                try:
                    do(self._link, sql.add_column(one, name, kind))
                except library().MySQLError as error:
                    if code_of(error) != 1060:  # another task was quicker
                        raise

    def _find(self, namespace: str, messages: Sequence[Message]) -> Table:
        schema, name = split_name(namespace, self._where.database)
        found = table(self._link, schema, name)
        if found is None and self._create:
            documents = [one.data for one in messages if one.op in (Op.INSERT, Op.UPDATE)]
            key = messages[0].id_fields if all(one.id is not None for one in messages) else ()
            do(self._link, f"CREATE DATABASE IF NOT EXISTS {quote(schema)}")
            do(self._link, sql.create_table(schema, name, fields(documents or [one.data for one in messages]), key))
            found = table(self._link, schema, name)
        if found is None:
            raise NotFound(
                f"MySQL at {self._where} has no table {schema}.{name}.",
                hint="Create it, or let headwater do so: mysql(..., create=True). A `remap` changes the name.",
            )
        if not found.transactional:
            raise BadConfig(f"The table {found.namespace} has an engine without transactions.", hint="ALTER TABLE ... ENGINE = InnoDB.")
        if not found.unique and any(one.id is not None for one in messages):
            raise BadConfig(
                f"The table {found.namespace} has no primary key, so rows cannot be replaced.",
                hint="Add one on the columns that tell documents apart.",
            )
        return found
