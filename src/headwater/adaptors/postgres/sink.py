"""Writing to PostgreSQL: the rows of a batch as one JSON list, which the server turns into rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from psycopg.errors import FeatureNotSupported

from headwater.adaptors.postgres import sql
from headwater.adaptors.postgres.adaptor import Postgres
from headwater.adaptors.postgres.columns import RULES
from headwater.adaptors.postgres.connection import PostgresSession
from headwater.adaptors.postgres.rows import PostgresShape
from headwater.adaptors.postgres.source import PostgresSource
from headwater.adaptors.postgres.tables import table
from headwater.adaptors.sql.adaptor import SqlSink
from headwater.adaptors.sql.column_types import SqlColumns
from headwater.adaptors.sql.ranges import TakenRange
from headwater.adaptors.sql.row_batch import RowBatch
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.table import COMMITTED, quote
from headwater.adaptors.sql.writer import SqlWriter
from headwater.core.errors import BadConfig, Forbidden, ReadOnly, Rejected
from headwater.pipeline import values
from headwater.pipeline.columns import ColumnType
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Part

NAME = 63  # bytes of the longest name: the server cuts others without an error
LEFT_ALONE = 10.0  # seconds that a transaction may be idle, beyond the timeout of a batch


class PostgresSink(SqlSink[Postgres]):
    """The tables of one database."""

    def check(self, chosen: Namespaces) -> list[str]:
        """Errors: `Forbidden` where the sink's own tables cannot be made, `ReadOnly` on a standby."""
        state = self.adaptor.state_schema
        committed = f"{quote(state)}.{COMMITTED}"
        with self.session() as session:
            version = session.version()
            if session.one("SELECT pg_is_in_recovery()"):
                raise ReadOnly(f"PostgreSQL at {session.where} is a standby.", hint="Connect to the primary.")
            if session.one("SELECT to_regclass(%s) IS NOT NULL", (committed,)):
                allowed = session.one("SELECT has_table_privilege(%s, 'INSERT, DELETE')", (committed,))
            else:
                allowed = session.one("SELECT bool_and(has_schema_privilege(oid, 'CREATE')) FROM pg_namespace WHERE nspname = %s", (state,))
            if not allowed:
                raise Forbidden(
                    f"The sink cannot keep what it has taken in the schema {state}.",
                    hint="Grant CREATE on it, or name another: state_schema=...",
                )
        return [version, f"what was taken is kept in {state}.{COMMITTED}: exactly once"]

    def writer(self, part: Part) -> PostgresWriter:
        adaptor = self.adaptor
        return PostgresWriter(adaptor.address(), part, schema=adaptor.schema, state=adaptor.state_schema, create=adaptor.create)

    def rules(self) -> SqlColumns:
        return RULES

    def source(self) -> PostgresSource:
        return PostgresSource(self.adaptor)

    def session(self) -> PostgresSession:
        return PostgresSession(self.adaptor.address())

    def statements(self) -> Statements:
        return sql.statements(self.adaptor.state_schema)


class PostgresWriter(SqlWriter[PostgresShape]):
    call: ClassVar[str] = "postgres"
    once: ClassVar[bool] = True  # ON CONFLICT refuses to change a row twice
    longest: ClassVar[str] = f"{NAME} bytes"

    def __init__(self, uri: str, part: Part, *, schema: str, state: str, create: bool) -> None:
        session = PostgresSession(uri)
        patience = max(1, int(part.timeout * 1000))
        settings = [
            # Taken means on disk: a crash of the server would lose a commit that is only in memory.
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
            f"SET statement_timeout = {patience}",
            # Releases the locks of a writer that hangs or has lost its machine: a new run would wait for them for ever.
            f"SET idle_in_transaction_session_timeout = {patience + int(LEFT_ALONE * 1000)}",
        ]
        super().__init__(session, sql.statements(state), part, rules=RULES, settings=settings, schema=schema, create=create)
        self._own = session
        self._open = sql.open_batch(state)

    def opened(self, span: TakenRange) -> list[TakenRange] | None:
        part, me = self._part, self._state.me
        own_span = (span.start, span.end, span.bucket, span.buckets)
        epoch, noted, near = self._session.ask(self._open, (*me, *me, *own_span, part.epoch, *me, span.start, span.end))[0]
        if epoch is None:  # no run has begun: an operator may step first
            self._state.first(part.epoch)
            return self.opened(span)
        self._state.fence(epoch, part.epoch)
        return [TakenRange(*row) for row in near or ()] if noted else None

    def send(self, batch: RowBatch[PostgresShape]) -> None:
        target = batch.shape.table
        if batch.op == "truncate":
            try:
                self._session.do(f"TRUNCATE {target.quoted}")
            except FeatureNotSupported as error:  # other tables refer to its rows
                raise Rejected(
                    self._session.said(error), hint="Acknowledge it with `headwater pipeline ack`, or drop the constraint."
                ) from None
            return
        text = sql.delete(target, batch.key) if batch.op == "delete" else sql.upsert(target, batch.key, batch.absent)
        self._session.do(text, (values.encode(batch.rows).decode(),))

    def shape(self, schema: str, name: str) -> PostgresShape | None:
        target = table(self._own, schema, name)
        if target is not None and target.deferrable:
            raise BadConfig(
                f"The key of {target.namespace} is deferrable, so rows cannot be replaced by it.", hint="Make it NOT DEFERRABLE."
            )
        return PostgresShape(target) if target is not None else None

    def names_fit(self, *names: str) -> bool:
        return all(len(name.encode()) <= NAME for name in names)

    def create_table(self, schema: str, name: str, columns: Mapping[str, ColumnType], key: Iterable[str]) -> Sequence[str]:
        # Asked first: CREATE SCHEMA IF NOT EXISTS needs a right in the database even where the schema exists.
        existing = self._session.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
        statement = sql.create_table(schema, name, columns, key)
        return (statement,) if existing else (sql.create_schema(schema), statement)

    def add_columns(self, shape: PostgresShape, columns: Mapping[str, ColumnType]) -> Sequence[str]:
        return (sql.add_columns(shape.table, columns),)

    def widen_columns(self, shape: PostgresShape, columns: Mapping[str, ColumnType]) -> Sequence[str]:
        return (sql.widen_columns(shape.table, columns),)
