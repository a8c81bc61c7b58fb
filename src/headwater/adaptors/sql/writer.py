"""Writing to a database: upserts and deletes, and what was taken, in one transaction per batch. So each batch counts once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic

from headwater.adaptors.sql.deadline import Deadline
from headwater.adaptors.sql.infer import ColumnKind, fields
from headwater.adaptors.sql.ranges import TakenRange, contains, of_bucket
from headwater.adaptors.sql.row_batch import AnyShape, RowBatch, row_batches
from headwater.adaptors.sql.session import Session
from headwater.adaptors.sql.state import SqlSinkState
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.table import split_name
from headwater.core.errors import BadConfig, NotFound, Rejected, Unavailable
from headwater.pipeline.adaptor import Batch, Part, SinkWriter, deliverable
from headwater.pipeline.message import Message, Op


class SqlWriter(SinkWriter, Generic[AnyShape]):
    """Writes one part. What a server does in its own way is abstract here."""

    call: ClassVar[str]  # the adaptor's, as hints name it
    once: ClassVar[bool]  # whether a statement must not meet one row twice

    def __init__(self, session: Session, statements: Statements, part: Part, *, settings: Sequence[str], schema: str, create: bool) -> None:
        self._session, self._part, self._schema, self._create = session, part, schema, create
        self._shapes: dict[str, AnyShape] = {}
        self._fails: tuple[type[Exception], ...] = (*session.fails, Rejected)
        try:
            for setting in settings:
                session.do(setting)
            self._state = SqlSinkState(session, statements, part.pipeline, part.sink)
            self._state.tidy(part.epoch)
        except session.fails as error:
            session.close()
            raise session.meaning(error) from error

    @abstractmethod
    def opened(self, span: TakenRange) -> list[TakenRange] | None:
        """Note the span as taken, for this run's epoch; return what else was noted near it; None where it was itself noted before."""

    @abstractmethod
    def send(self, run: RowBatch[AnyShape]) -> None:
        """Write a run."""

    @abstractmethod
    def shape(self, schema: str, name: str) -> AnyShape | None:
        """The table, as it is now; None where there is none. Errors: `BadConfig` for one that cannot be written to."""

    @abstractmethod
    def create_table(self, schema: str, name: str, columns: dict[str, ColumnKind], key: Iterable[str]) -> Sequence[str]: ...

    @abstractmethod
    def add_columns(self, shape: AnyShape, columns: dict[str, ColumnKind]) -> Sequence[str]: ...

    def write(self, batch: Batch) -> None:
        session = self._session
        with Deadline(session, self._part.timeout) as deadline:
            try:
                self._ready(batch.messages)
                try:
                    with session.transaction():
                        self._apply(self._remaining(batch))
                except self._fails as error:
                    if not self._refused(error):
                        raise
                    self._write_before_refused(batch)
            except session.fails as error:
                if deadline.passed:
                    raise deadline.error() from error
                if session.about_data(error):  # seen at the commit only, as by a deferred constraint: which message it is, one by one tells
                    offset = batch.messages[0].offset if len(batch.messages) == 1 else -1
                    raise Rejected(f"The batch is refused at its commit: {session.said(error)}", offset=offset) from error
                meant = session.meaning(error)
                if not isinstance(meant, Unavailable):  # a right that was taken away, a password: no message's fault
                    meant = Unavailable(meant.message, hint=meant.hint)
                raise meant from error

    def close(self) -> None:
        self._session.close()

    # -- one transaction ------------------------------------------------------------------------------------

    def _remaining(self, batch: Batch) -> list[Message]:
        """Open the batch: shut out older runs, note it as taken, and return what of it is not there yet."""
        part = self._part
        wanted = [one for one in batch.messages if deliverable(one)]
        if part.again:  # nothing is noted, and what was noted does not count
            self._state.shared(part.epoch)
            return wanted
        near = self.opened(self._span(batch))
        if near is None:
            return []
        done = of_bucket(near, part.bucket, part.buckets) if near else []
        return [one for one in wanted if not contains(done, one.offset)] if done else wanted

    def _apply(self, messages: Sequence[Message]) -> None:
        for run in row_batches(messages, self._shapes.__getitem__, once=self.once):
            self.send(run)

    def _write_before_refused(self, batch: Batch) -> None:
        """Somewhere in the batch is a message that the table refuses: take all before it, and say which it is."""
        with self._session.transaction():
            found = self._first_refused(self._remaining(batch))
            if found is None:  # what was in the way has gone meanwhile
                return
            message, error = found
            if not self._part.again:
                self._state.shorten(self._span(batch), message.offset)
        said, hint = (error.message, error.hint) if isinstance(error, Rejected) else (self._session.said(error), "")
        raise Rejected(
            f"{message.namespace} refuses the message: {said}",
            offset=message.offset,
            before_taken=True,
            hint=hint or "Correct it with `headwater pipeline edit`, or the table.",
        ) from error

    def _first_refused(self, messages: Sequence[Message]) -> tuple[Message, Exception] | None:
        """Halve until the message is found. Everything before it is applied, inside the transaction that is open."""
        try:
            with self._session.transaction():  # a savepoint
                self._apply(messages)
        except self._fails as error:
            if not self._refused(error):
                raise
            if len(messages) == 1:
                return messages[0], error
            middle = len(messages) // 2
            return self._first_refused(messages[:middle]) or self._first_refused(messages[middle:])
        return None

    def _refused(self, error: Exception) -> bool:
        return isinstance(error, Rejected) or self._session.about_data(error)

    def _span(self, batch: Batch) -> TakenRange:
        return TakenRange(batch.start, batch.end, self._part.bucket, self._part.buckets)

    # -- tables -----------------------------------------------------------------------------------------------

    def _ready(self, messages: Sequence[Message]) -> None:
        """Know every table before the transaction begins: one that makes tables inside of it could wait for another for ever, or would
        commit what is not finished."""
        by_name: dict[str, list[Message]] = {}
        for message in messages:
            if deliverable(message):
                by_name.setdefault(message.namespace, []).append(message)
        for namespace, own in by_name.items():
            if namespace not in self._shapes:
                self._shapes[namespace] = self._found(namespace, own)
            if self._create:
                known = {column.name for column in self._shapes[namespace].table.columns}
                written = _written(own)
                if any(not document.keys() <= known for document in written):
                    new = {name: kind for name, kind in fields(written).items() if name not in known}
                    self._session.make(*self.add_columns(self._shapes[namespace], new))
                    self._shapes[namespace] = self._found(namespace, own)

    def _found(self, namespace: str, messages: Sequence[Message]) -> AnyShape:
        schema, name = split_name(namespace, self._schema)
        found = self.shape(schema, name)
        if found is None and self._create:
            key = messages[0].id_fields if all(one.id is not None for one in messages) else ()
            self._session.make(*self.create_table(schema, name, fields(_written(messages) or [one.data for one in messages]), key))
            found = self.shape(schema, name)
        if found is None:
            session = self._session
            raise NotFound(
                f"{session.server} at {session.where} has no table {schema}.{name}; {self.call}(..., create=True) would make it.",
                hint="Create it, or set create=True, or give the namespace the name of another table with `remap`.",
            )
        if not found.table.key and not found.table.unique and any(one.id is not None for one in messages):
            raise BadConfig(
                f"The table {found.table.namespace} has neither a primary key nor a unique index, so rows cannot be replaced.",
                hint="Add a primary key on the columns that tell documents apart.",
            )
        return found


def _written(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [one.data for one in messages if one.op in (Op.INSERT, Op.UPDATE)]
