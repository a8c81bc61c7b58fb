"""Writing to a database: the rows of a batch and the offsets that it takes in one transaction, so each batch counts once."""

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
    """Writes one part. The abstract methods are what differs between servers."""

    call: ClassVar[str]  # the adaptor's function, for hints
    once: ClassVar[bool]  # whether a statement must not change one row twice

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
        """Insert the span for this run's epoch. Returns the spans that overlap it; None where the span itself was there before."""

    @abstractmethod
    def send(self, batch: RowBatch[AnyShape]) -> None:
        """Write a batch of rows."""

    @abstractmethod
    def shape(self, schema: str, name: str) -> AnyShape | None:
        """The table as it is now; None where it does not exist. Errors: `BadConfig` for one that cannot be written to."""

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
                if session.about_data(error):  # seen at the commit only, as by a deferred constraint: the run finds the message one by one
                    offset = batch.messages[0].offset if len(batch.messages) == 1 else -1
                    raise Rejected(f"The batch is refused at its commit: {session.said(error)}", offset=offset) from error
                meant = session.meaning(error)
                if not isinstance(meant, Unavailable):  # a revoked right, a changed password: no message is to blame
                    meant = Unavailable(meant.message, hint=meant.hint)
                raise meant from error

    def close(self) -> None:
        self._session.close()

    # -- one transaction ------------------------------------------------------------------------------------

    def _remaining(self, batch: Batch) -> list[Message]:
        """Open the batch: fence older runs, insert its span, and return the messages that are not there yet."""
        part = self._part
        wanted = [one for one in batch.messages if deliverable(one)]
        if part.again:  # a replay inserts no span, and ignores those that are there
            self._state.shared(part.epoch)
            return wanted
        near = self.opened(self._span(batch))
        if near is None:
            return []
        done = of_bucket(near, part.bucket, part.buckets) if near else []
        return [one for one in wanted if not contains(done, one.offset)] if done else wanted

    def _apply(self, messages: Sequence[Message]) -> None:
        for batch in row_batches(messages, self._shapes.__getitem__, once=self.once):
            self.send(batch)

    def _write_before_refused(self, batch: Batch) -> None:
        """Find the message that the table refuses: commit all before it, and raise `Rejected` with its offset."""
        with self._session.transaction():
            found = self._first_refused(self._remaining(batch))
            if found is None:  # the reason is gone meanwhile
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
        """Find the message by halving. Everything before it is applied, inside the open transaction."""
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
        """Find or create every table before the transaction begins. Inside of it, CREATE TABLE could deadlock with another task, and on
        MySQL it would commit."""
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
