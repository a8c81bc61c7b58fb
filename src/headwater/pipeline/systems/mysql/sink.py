"""Writing to MariaDB and MySQL: a run's rows in statements of some megabytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import Part
from headwater.pipeline.systems.mysql import sql as sql
from headwater.pipeline.systems.mysql.link import Where
from headwater.pipeline.systems.mysql.rows import MySQLShape
from headwater.pipeline.systems.mysql.session import MySQLSession
from headwater.pipeline.systems.mysql.tables import table
from headwater.pipeline.systems.sql.infer import ColumnKind
from headwater.pipeline.systems.sql.ranges import Taken
from headwater.pipeline.systems.sql.run import Run
from headwater.pipeline.systems.sql.writer import SqlWriter

STATEMENT = 4 << 20  # bytes of one statement, about: servers refuse very long ones
DELETES = 500  # keys of one statement


class MySQLWriter(SqlWriter[MySQLShape]):
    call: ClassVar[str] = "mysql"
    once: ClassVar[bool] = False

    def __init__(self, where: Where, part: Part, *, create: bool) -> None:
        # A server that does not answer at all is noticed by the socket's own timeout.
        session = MySQLSession(where, read_timeout=part.timeout, write_timeout=part.timeout)
        settings = [
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",  # fewer locks between rows: less waiting side by side
            f"SET SESSION innodb_lock_wait_timeout = {max(1, math.ceil(part.timeout))}",
        ]
        super().__init__(session, sql.STATEMENTS, part, settings=settings, schema=where.database, create=create)
        self._link = session.link

    def opened(self, span: Taken) -> list[Taken] | None:
        self._state.shared(self._part.epoch)
        if not self._state.take(span):
            return None
        near = self._session.ask(sql.READ_NEAR, (*self._state.me, span.start, span.end))
        return [one for row in near if (one := Taken(*row)) != span]

    def send(self, run: Run[MySQLShape]) -> None:
        one = run.shape.table
        if run.op == "truncate":
            self._session.do(f"DELETE FROM {one.quoted}")  # TRUNCATE would commit what is not finished
        elif run.op == "delete":
            for at in range(0, len(run.rows), DELETES):
                page = run.rows[at : at + DELETES]
                self._session.do(sql.delete(one, run.key, len(page)), [row[name] for row in page for name in run.key])
        elif run.key and one.others:
            self._replace_each(run)
        else:
            self._upsert(run)

    def shape(self, schema: str, name: str) -> MySQLShape | None:
        found = table(self._link, schema, name)
        if found is not None and not found.transactional:
            raise BadConfig(f"The table {found.namespace} has an engine without transactions.", hint="ALTER TABLE ... ENGINE = InnoDB.")
        return MySQLShape(found) if found is not None else None

    def create_table(self, schema: str, name: str, columns: dict[str, ColumnKind], key: Iterable[str]) -> Sequence[str]:
        made = sql.create_table(schema, name, columns, key)
        return (made,) if schema == self._schema else (sql.create_database(schema), made)

    def add_columns(self, shape: MySQLShape, columns: dict[str, ColumnKind]) -> Sequence[str]:
        return [sql.add_column(shape.table, name, kind) for name, kind in columns.items()]

    def _upsert(self, run: Run[MySQLShape]) -> None:
        """Many rows with one statement. Where the key is the only unique index, a row that is there is replaced."""
        names = run.shape.names(run.absent)
        first = sql.insert(run.shape.table, names).replace("%%", "%")
        last = sql.on_conflict(run.shape.table, names, run.key, run.absent).replace("%%", "%") if run.key else ""
        escape = self._link.escape
        page: list[str] = []
        size = 0
        for row in run.rows:
            text = f"({','.join([escape(row.get(name)) for name in names])})"
            page.append(text)
            size += len(text)
            if size >= STATEMENT:
                self._session.do(first + ",".join(page) + last)
                page, size = [], 0
        if page:
            self._session.do(first + ",".join(page) + last)

    def _replace_each(self, run: Run[MySQLShape]) -> None:
        """Row by row: with a second unique index, ON DUPLICATE KEY could replace another document's row."""
        names = run.shape.names(run.absent)
        update = sql.update(run.shape.table, names, run.key, run.absent)
        insert = sql.insert(run.shape.table, names) + f"({', '.join(['%s'] * len(names))})"
        for row in run.rows:
            given = [row.get(name) for name in names if name not in run.key] + [row[name] for name in run.key]
            if not self._session.do(update, given):
                self._session.do(insert, [row.get(name) for name in names])
