"""Writing to a database: the rows of a batch and the offsets that it takes in one transaction, so each batch counts once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Generic

from headwater.adaptors.sql.column_types import SqlColumns
from headwater.adaptors.sql.deadline import Deadline
from headwater.adaptors.sql.made_columns import MadeColumns
from headwater.adaptors.sql.ranges import TakenRange, contains, of_bucket
from headwater.adaptors.sql.row_batch import AnyShape, RowBatch, row_batches
from headwater.adaptors.sql.session import Session
from headwater.adaptors.sql.state import SqlSinkState
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.table import COMMITTED, EPOCH, OWNER, split_name
from headwater.core.errors import BadConfig, NotFound, Rejected, Unavailable
from headwater.pipeline.columns import ColumnType
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch, Part, SinkWriter, deliverable

_ATTEMPTS = 4


class SqlWriter(SinkWriter, Generic[AnyShape]):
    """Writes one part. The abstract methods are what differs between servers."""

    call: ClassVar[str]  # the adaptor's function, for hints
    once: ClassVar[bool]  # whether a statement must not change one row twice
    longest: ClassVar[str]  # the longest name that the server keeps, for errors

    def __init__(
        self,
        session: Session,
        statements: Statements,
        part: Part,
        *,
        rules: SqlColumns,
        settings: Sequence[str],
        schema: str,
        create: bool,
    ) -> None:
        self._session, self._part, self._schema = session, part, schema
        self._columns = MadeColumns(part, rules) if create else None
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
    def names_fit(self, *names: str) -> bool:
        """Whether the server keeps each name whole."""

    @abstractmethod
    def create_table(self, schema: str, name: str, columns: Mapping[str, ColumnType], key: Iterable[str]) -> Sequence[str]: ...

    @abstractmethod
    def add_columns(self, shape: AnyShape, columns: Mapping[str, ColumnType]) -> Sequence[str]: ...

    @abstractmethod
    def widen_columns(self, shape: AnyShape, columns: Mapping[str, ColumnType]) -> Sequence[str]: ...

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
        wanted = [message for message in batch.messages if deliverable(message)]
        if part.again:  # a replay inserts no span, and ignores those that are there
            self._state.shared(part.epoch)
            return wanted
        near = self.opened(self._span(batch))
        if near is None:
            return []
        done = of_bucket(near, part.bucket, part.buckets) if near else []
        return [message for message in wanted if not contains(done, message.offset)] if done else wanted

    def _apply(self, messages: Sequence[Message]) -> None:
        writable = [message for message in messages if message.namespace in self._shapes]
        for batch in row_batches(writable, self._shapes.__getitem__, once=self.once):
            self.send(batch)

    def _write_before_refused(self, batch: Batch) -> None:
        """Find the message that the table refuses: commit all before it, and raise `Rejected` with its offset."""
        with self._session.transaction():
            refusal = self._first_refused(self._remaining(batch))
            if refusal is None:  # the reason is gone meanwhile
                return
            message, error = refusal
            if not self._part.again:
                self._state.shorten(self._span(batch), message.offset)
        reason, hint = (error.message, error.hint) if isinstance(error, Rejected) else (self._session.said(error), "")
        raise Rejected(
            f"{message.namespace} refuses the message: {reason}",
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
            schema, name = split_name(namespace, self._schema)
            shape = self._shapes.get(namespace) or self._found(schema, name, own)
            if self._columns is not None:
                shape = self._made(self._columns, shape, schema, name, own)
                if shape is None and all(message.op == Op.COMMAND for message in own):
                    continue  # there is nothing to empty
            self._shapes[namespace] = self._usable(shape, schema, name, own)

    def _found(self, schema: str, name: str, messages: Sequence[Message]) -> AnyShape | None:
        """The table of the name; None where it does not exist.

        Errors: `Rejected`, untouched, for a table that says what the sink has taken; for a name that the server would cut, and for one that
        the server takes for a table of another spelling: two namespaces would become one table, and replace each other's rows.
        """
        first = messages[0]
        hint = f'Give the namespace another name: remap({{"{first.namespace}": ...}}).'
        if name.lower() in (COMMITTED, EPOCH, OWNER):
            raise Rejected(f"{name} is a table of the sink's own.", offset=first.offset, untouched=True, hint=hint)
        if not self.names_fit(schema, name):
            raise Rejected(
                f"The name of the table {schema}.{name} has more than the {self.longest} that {self._session.server} keeps.",
                offset=first.offset,
                untouched=True,
                hint=hint,
            )
        shape = self.shape(schema, name)
        if shape is not None and (shape.table.schema, shape.table.name) != (schema, name):
            raise Rejected(
                f"{self._session.server} takes {schema}.{name} for the table {shape.table.namespace}, which another namespace may have.",
                offset=first.offset,
                untouched=True,
                hint=hint,
            )
        return shape

    def _check_fields(self, names: Iterable[str], messages: Sequence[Message]) -> None:
        """Errors: `Rejected`, untouched, for a column to be made whose name the server would cut."""
        for name in names:
            if not self.names_fit(name):
                raise Rejected(
                    f"The field {name} has a name of more than the {self.longest} that {self._session.server} keeps.",
                    offset=next((message.offset for message in messages if name in message.data), -1),
                    untouched=True,
                    hint=f'Give it another name: rename({{"{name}": ...}}), or leave it out: omit("{name}").',
                )

    def _made(self, columns: MadeColumns, shape: AnyShape | None, schema: str, name: str, messages: Sequence[Message]) -> AnyShape | None:
        """The table with all columns that the messages need, made or changed where it lacks them.

        Errors: `NeedsColumns`; `Rejected`, untouched, for a value that its column does not hold, and for names and columns that the server
        refuses: of several messages the run finds the one.
        """
        for _ in range(_ATTEMPTS):  # another task may add columns at the same moment
            wanted = columns.lacking(f"{schema}.{name}", None if shape is None else shape.table, messages)
            if wanted is None:
                break
            self._check_fields(wanted.missing, messages)
            try:
                if shape is None:
                    self._session.make(*self.create_table(schema, name, wanted.missing, wanted.key))
                else:
                    self._session.make(*(self.add_columns(shape, wanted.missing) if wanted.missing else ()))
                    self._session.make(*(self.widen_columns(shape, wanted.narrow) if wanted.narrow else ()))
            except self._session.fails as error:
                if not self._session.about_tables(error):
                    raise
                raise Rejected(
                    f"{self._session.server} cannot make the columns of {schema}.{name}: {self._session.said(error)}",
                    offset=messages[0].offset if len(messages) == 1 else -1,
                    untouched=True,
                    hint="Rename the fields with rename(...), or choose some of them with pick(...).",
                ) from error
            shape = self._found(schema, name, messages)
        if shape is not None:
            shape.drops_nulls = True
        return shape

    def _usable(self, shape: AnyShape | None, schema: str, name: str, messages: Sequence[Message]) -> AnyShape:
        if shape is None:
            session = self._session
            raise NotFound(
                f"{session.server} at {session.where} has no table {schema}.{name}; {self.call}(..., create=True) would make it.",
                hint="Create it, or set create=True, or give the namespace the name of another table with `remap`.",
            )
        if not shape.table.key and not shape.table.unique and any(message.id is not None for message in messages):
            raise BadConfig(
                f"The table {shape.table.namespace} has neither a primary key nor a unique index, so rows cannot be replaced.",
                hint="Add a primary key on the columns that tell documents apart.",
            )
        return shape
