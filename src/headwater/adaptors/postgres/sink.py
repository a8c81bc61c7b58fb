"""Writing to PostgreSQL: a run's rows as one JSON list, which the server itself makes rows of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from headwater.adaptors.postgres import sql as sql
from headwater.adaptors.postgres.adaptor import Postgres
from headwater.adaptors.postgres.check import sink as check_sink
from headwater.adaptors.postgres.connection import library
from headwater.adaptors.postgres.rows import PostgresShape
from headwater.adaptors.postgres.session import PostgresSession
from headwater.adaptors.postgres.source import PostgresSource
from headwater.adaptors.postgres.tables import table
from headwater.adaptors.sql.adaptor import SqlSink
from headwater.adaptors.sql.infer import ColumnKind
from headwater.adaptors.sql.ranges import TakenRange
from headwater.adaptors.sql.run import RowRun
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.writer import SqlWriter
from headwater.core.errors import BadConfig, Rejected
from headwater.pipeline import values
from headwater.pipeline.adaptor import Part
from headwater.pipeline.namespaces import Namespaces

LEFT_ALONE = 10.0  # seconds besides a batch's own that a transaction may be left alone


class PostgresSink(SqlSink[Postgres]):
    """The tables of one database."""

    def check(self, chosen: Namespaces) -> list[str]:
        return check_sink(self.adaptor.address(), self.adaptor.state_schema, chosen)

    def writer(self, part: Part) -> PostgresWriter:
        adaptor = self.adaptor
        return PostgresWriter(adaptor.address(), part, schema=adaptor.schema, state=adaptor.state_schema, create=adaptor.create)

    def source(self) -> PostgresSource:
        return PostgresSource(self.adaptor)

    def usual(self) -> str:
        return self.adaptor.schema

    def session(self) -> PostgresSession:
        return PostgresSession(self.adaptor.address())

    def statements(self) -> Statements:
        return sql.statements(self.adaptor.state_schema)


class PostgresWriter(SqlWriter[PostgresShape]):
    call: ClassVar[str] = "postgres"
    once: ClassVar[bool] = True  # ON CONFLICT refuses to change a row twice

    def __init__(self, uri: str, part: Part, *, schema: str, state: str, create: bool) -> None:
        session = PostgresSession(uri)
        patience = max(1, int(part.timeout * 1000))
        settings = [
            # Taken means on the disk: of a commit that is only in memory, a crash of the server would leave nothing.
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
            f"SET statement_timeout = {patience}",
            # A writer that hangs or has lost its machine would keep its locks, and a new run would wait for them for ever.
            f"SET idle_in_transaction_session_timeout = {patience + int(LEFT_ALONE * 1000)}",
        ]
        super().__init__(session, sql.statements(state), part, settings=settings, schema=schema, create=create)
        self._link = session.link
        self._open = sql.open_batch(state)

    def opened(self, span: TakenRange) -> list[TakenRange] | None:
        part, me = self._part, self._state.me
        taken = (span.start, span.end, span.bucket, span.buckets)
        epoch, noted, near = self._session.ask(self._open, (*me, *me, *taken, part.epoch, *me, span.start, span.end))[0]
        if epoch is None:  # nobody has begun a run: stepping may come first
            self._state.first(part.epoch)
            return self.opened(span)
        self._state.fence(epoch, part.epoch)
        return [TakenRange(*one) for one in near or ()] if noted else None

    def send(self, run: RowRun[PostgresShape]) -> None:
        one = run.shape.table
        if run.op == "truncate":
            try:
                self._session.do(f"TRUNCATE {one.quoted}")
            except library().errors.FeatureNotSupported as error:  # other tables refer to its rows
                raise Rejected(
                    self._session.said(error), hint="Acknowledge it with `headwater pipeline ack`, or drop the constraint."
                ) from None
            return
        text = sql.delete(one, run.key) if run.op == "delete" else sql.upsert(one, run.key, run.absent)
        self._session.do(text, (values.encode(run.rows).decode(),))

    def shape(self, schema: str, name: str) -> PostgresShape | None:
        found = table(self._link, schema, name)
        if found is not None and found.deferrable:
            raise BadConfig(
                f"The key of {found.namespace} is deferrable, so rows cannot be replaced by it.", hint="Make it NOT DEFERRABLE."
            )
        return PostgresShape(found) if found is not None else None

    def create_table(self, schema: str, name: str, columns: dict[str, ColumnKind], key: Iterable[str]) -> Sequence[str]:
        # Asked first: to make a schema takes a right in the database, also where it is there.
        there = self._session.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
        made = sql.create_table(schema, name, columns, key)
        return (made,) if there else (sql.create_schema(schema), made)

    def add_columns(self, shape: PostgresShape, columns: dict[str, ColumnKind]) -> Sequence[str]:
        return (sql.add_columns(shape.table, columns),)
