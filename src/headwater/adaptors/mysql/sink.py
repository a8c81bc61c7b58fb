"""Writing to MariaDB and MySQL: the rows of a batch in statements of some megabytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from pymysql import MySQLError

from headwater.adaptors.mysql import sql
from headwater.adaptors.mysql.adaptor import MySQL
from headwater.adaptors.mysql.columns import RULES
from headwater.adaptors.mysql.connection import MySQLAddress, MySQLSession, code_of, parsed, quote
from headwater.adaptors.mysql.rows import MySQLShape
from headwater.adaptors.mysql.source import MySQLSource
from headwater.adaptors.mysql.tables import table
from headwater.adaptors.pieces import portions
from headwater.adaptors.sql.adaptor import SqlSink
from headwater.adaptors.sql.column_types import SqlColumns
from headwater.adaptors.sql.ranges import TakenRange
from headwater.adaptors.sql.row_batch import RowBatch
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.table import COMMITTED
from headwater.adaptors.sql.writer import SqlWriter
from headwater.core.errors import BadConfig, Forbidden, NotFound, ReadOnly, Rejected
from headwater.pipeline.columns import ColumnType
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Part

STATEMENT = 4 << 20  # bytes of one statement with more than one row, about
DELETES = 500  # keys of one statement
LEFT_ALONE = 10  # seconds that a transaction may be idle, beyond the timeout of a batch
RIGHTS = "SELECT, INSERT, UPDATE, DELETE, CREATE"
NAME = 64  # characters of the longest name
BYTES = "surrogateescape"  # how PyMySQL keeps bytes inside of a statement's text


class MySQLSink(SqlSink[MySQL]):
    """The tables of one database. Errors of all: `BadConfig` where the URI names none."""

    def __init__(self, adaptor: MySQL) -> None:
        super().__init__(adaptor)
        self._where = parsed(adaptor.address())
        if not self._where.database:
            raise BadConfig("The URI of the sink names no database.", hint="It looks like mysql://user:password@host:3306/database.")

    def check(self, chosen: Namespaces) -> list[str]:
        """Errors: `ReadOnly` on a replica, `Forbidden` where the sink's own tables cannot be made or written."""
        with self.session() as session:
            if session.one("SELECT @@read_only"):
                raise ReadOnly(f"MySQL at {self._where} is read only.", hint="Connect to the primary.")
            existing = session.ask(sql.STATEMENTS.there)
            for attempt in (*sql.ATTEMPTS, *(() if existing else (sql.ATTEMPT_TO_CREATE,))):
                self._attempt(session, attempt)
            return [session.version(), f"what was taken is kept in {self._where.database}.{COMMITTED}: exactly once"]

    def _attempt(self, session: MySQLSession, statement: str) -> None:
        """Run a statement that changes nothing. The server checks rights before it checks whether a table exists."""
        try:
            session.do(statement)
        except MySQLError as error:
            if code_of(error) in (1044, 1142):
                raise Forbidden(
                    f"The sink cannot keep what it has taken in {self._where.database}: {error.args[-1]}.",
                    hint=f"Grant its user the rights: GRANT {RIGHTS} ON {quote(self._where.database)}.* TO ...",
                ) from error
            if code_of(error) != 1146:  # no such table: so it may be made
                raise

    def writer(self, part: Part) -> MySQLWriter:
        return MySQLWriter(self._where, part, create=self.adaptor.create)

    def rules(self) -> SqlColumns:
        return RULES

    def source(self) -> MySQLSource:
        return MySQLSource(self.adaptor)

    def session(self) -> MySQLSession:
        return MySQLSession(self._where)

    def statements(self) -> Statements:
        return sql.STATEMENTS


class MySQLWriter(SqlWriter[MySQLShape]):
    call: ClassVar[str] = "mysql"
    once: ClassVar[bool] = False
    longest: ClassVar[str] = f"{NAME} characters"

    def __init__(self, where: MySQLAddress, part: Part, *, create: bool) -> None:
        # A server that does not answer at all is noticed by the socket's own timeout.
        session = MySQLSession(where, read_timeout=part.timeout, write_timeout=part.timeout)
        patience = max(1, math.ceil(part.timeout))
        settings = [
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",  # fewer locks between rows: less waiting side by side
            # Releases the locks of a writer that hangs or has lost its machine: it would keep them for hours, and a new run would wait.
            # MariaDB only; MySQL takes it for a comment.
            f"SET SESSION innodb_lock_wait_timeout = {patience} /*M!100300 , idle_transaction_timeout = {patience + LEFT_ALONE} */",
        ]
        super().__init__(session, sql.STATEMENTS, part, rules=RULES, settings=settings, schema=where.database, create=create)
        self._own, self._link = session, session.link
        self._packet = int(session.one("SELECT @@max_allowed_packet"))
        self._most = min(STATEMENT, self._packet // 2)

    def opened(self, span: TakenRange) -> list[TakenRange] | None:
        self._state.shared(self._part.epoch)
        if not self._state.take(span):
            return None
        near = self._session.ask(sql.READ_NEAR, (*self._state.me, span.start, span.end))
        return [taken for row in near if (taken := TakenRange(*row)) != span]

    def send(self, batch: RowBatch[MySQLShape]) -> None:
        target = batch.shape.table
        if batch.op == "truncate":
            self._session.do(f"DELETE FROM {target.quoted}")  # TRUNCATE would commit what is not finished
        elif batch.op == "delete":
            for at in range(0, len(batch.rows), DELETES):
                page = batch.rows[at : at + DELETES]
                self._session.do(sql.delete(target, batch.key, len(page)), [row[name] for row in page for name in batch.key])
        elif batch.key and target.others:
            self._replace_each(batch)
        else:
            self._upsert(batch)

    def shape(self, schema: str, name: str) -> MySQLShape | None:
        target = table(self._own, schema, name)
        if target is not None and not target.transactional:
            raise BadConfig(f"The table {target.namespace} has an engine without transactions.", hint="ALTER TABLE ... ENGINE = InnoDB.")
        return MySQLShape(target) if target is not None else None

    def names_fit(self, *names: str) -> bool:
        return all(len(name) <= NAME for name in names)

    def create_table(self, schema: str, name: str, columns: Mapping[str, ColumnType], key: Iterable[str]) -> Sequence[str]:
        exact = sql.MARIADB if "mariadb" in self._own.version().lower() else sql.MYSQL
        if not self._session.ask("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (schema,)):
            raise NotFound(
                f"MySQL at {self._session.where} has no database {schema}, so the table {schema}.{name} cannot be made: "
                "create=True makes tables, and what stands before the first dot of a namespace is a database.",
                hint=f'Create the database, or give the namespace another name: remap({{"{schema}.{name}": ...}}).',
            )
        return (sql.create_table(schema, name, columns, key, exact),)

    def add_columns(self, shape: MySQLShape, columns: Mapping[str, ColumnType]) -> Sequence[str]:
        return (sql.add_columns(shape.table, columns),)

    def widen_columns(self, shape: MySQLShape, columns: Mapping[str, ColumnType]) -> Sequence[str]:
        return (sql.widen_columns(shape.table, columns),)

    def _upsert(self, batch: RowBatch[MySQLShape]) -> None:
        """Many rows with one statement. Where the key is the only unique index, a row that is there is replaced."""
        names = batch.shape.names(batch.absent)
        first = sql.insert(batch.shape.table, names).replace("%%", "%").encode()
        last = sql.on_conflict(batch.shape.table, names, batch.key, batch.absent).replace("%%", "%").encode() if batch.key else b""
        escape = self._link.escape
        rows = (f"({','.join([escape(row.get(name)) for name in names])})".encode(errors=BYTES) for row in batch.rows)
        for page in portions(rows, len, self._most):
            self._say(first + b",".join(page) + last)

    def _replace_each(self, batch: RowBatch[MySQLShape]) -> None:
        """Row by row: with a second unique index, ON DUPLICATE KEY could replace another document's row."""
        names = batch.shape.names(batch.absent)
        update = sql.update(batch.shape.table, names, batch.key, batch.absent)
        replaced = sql.replaced(batch.shape.table, names, batch.key)
        insert = sql.insert(batch.shape.table, names) + f"({', '.join(['%s'] * len(names))})"
        with self._link.cursor() as cursor:
            for row in batch.rows:
                parameters = [row.get(name) for name in replaced] + [row[name] for name in batch.key]
                if not self._say(cursor.mogrify(update, parameters).encode(errors=BYTES)):
                    self._say(cursor.mogrify(insert, [row.get(name) for name in names]).encode(errors=BYTES))

    def _say(self, statement: bytes) -> int:
        """Run a statement of any size. Errors: `Rejected` for one that is too large: the server would close the connection."""
        if len(statement) + 1 > self._packet:
            raise Rejected(
                f"{len(statement)} bytes are more than the server's max_allowed_packet of {self._packet} lets in.",
                hint="Raise max_allowed_packet there, or leave large fields out with `omit`.",
            )
        return self._session.do(statement)
