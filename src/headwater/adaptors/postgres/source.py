"""Reading PostgreSQL's tables: cut by ranges of the primary key, streamed by COPY as JSON text that the server itself makes.

A slice is read by one statement, so by one snapshot. After a restart the rest is read by another one: what changed meanwhile comes with
the changes, whose beginning was taken before the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from psycopg import errors
from psycopg.sql import Literal

from headwater.adaptors.postgres.adaptor import Postgres
from headwater.adaptors.postgres.connection import ALL_ROWS, PostgresSession
from headwater.adaptors.postgres.copy_out import pieces
from headwater.adaptors.postgres.publication import check as check_publication
from headwater.adaptors.postgres.publication import check_complete
from headwater.adaptors.postgres.slot import slot_position
from headwater.adaptors.postgres.table_watch import TableWatch, with_entries
from headwater.adaptors.postgres.tables import (
    PostgresColumn,
    PostgresTable,
    document,
    estimated_rows,
    followable,
    identities,
    leaves,
    logical,
    may_replicate,
    table,
    table_names,
    tables,
    written_names,
)
from headwater.adaptors.postgres.tail import follow, prepare
from headwater.adaptors.sql.adaptor import SqlSource
from headwater.adaptors.sql.table import quote
from headwater.core.errors import BadConfig, Differs
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice

PIECE = 4 << 20  # bytes
SAMPLE = 2000  # rows of the sample for each slice, by which a table is cut into parts of about the same size


class PostgresSource(SqlSource[Postgres, PostgresSession, PostgresTable]):
    """The tables of one database."""

    joins = "never"  # a table that joins the publication needs a slot that begins behind the transactions which are open then

    def session(self, **more: Any) -> PostgresSession:
        return PostgresSession(self.adaptor.address(), **more)

    def default_schema(self) -> str:
        return self.adaptor.schema

    def check(self, chosen: Namespaces) -> list[str]:
        with self.session() as session:
            lines, source_tables = [session.version()], self.tables(session, chosen)
            lines += map(str, source_tables)
            if self.adaptor.tail:
                slot = self._check_slot(session)
                lines.append(slot)
                followable(source_tables)
                existing_slot = self.adaptor.slot if slot_position(session, self.adaptor.slot) is not None else ""
                check_publication(session, self.adaptor.publication, source_tables, slot=existing_slot)
        return lines

    def _check_slot(self, session: PostgresSession) -> str:
        logical(session)
        may_replicate(session)
        if slot_position(session, self.adaptor.slot) is not None:
            return f"the slot {self.adaptor.slot} is there"
        free = session.one("SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots")
        if free <= 0:
            raise BadConfig("The server has no free replication slot.", hint="Raise max_replication_slots, or drop one that nobody uses.")
        return f"the slot {self.adaptor.slot} will be made; {free} are free"

    def systems(self, session: PostgresSession, *, writing: bool) -> list[str]:
        return identities(session, writing=writing)

    def names(self, session: PostgresSession, tables: list[PostgresTable]) -> list[str]:
        return written_names(session, tables)

    def cursor(self, chosen: Namespaces) -> Any:
        return prepare(self.adaptor, chosen)

    def tables(self, session: PostgresSession, chosen: Namespaces) -> list[PostgresTable]:
        return tables(session, chosen)

    def table(self, session: PostgresSession, schema: str, name: str) -> PostgresTable | None:
        return table(session, schema, name)

    def existing(self, session: PostgresSession, schemas: Collection[str]) -> set[str]:
        return table_names(session, schemas)

    def rows(self, session: PostgresSession, tables: list[PostgresTable]) -> int | None:
        return estimated_rows(session, tables)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The slice's rows behind `position`: the last key that was read, or the last row's ctid where there is no key."""
        with self.session() as session:
            source_table = self.planned(session, part)
            session.do(ALL_ROWS)
            session.do("SET max_parallel_workers_per_gather = 0")  # parallel workers would mix the order
            # Changes come without generated columns: a document must not lose a field by being changed.
            columns = [column for column in source_table.columns if not (self.adaptor.tail and column.generated)]
            statement = _statement(session, source_table, columns, part.spec, position)
            try:
                yield from pieces(session, statement, "key" if part.spec["key"] else "row", piece_size(PIECE))
            except (errors.UndefinedTable, errors.UndefinedColumn) as error:
                raise Differs(f"The table {part.namespace} has changed under the copy: {error}.", hint="Begin the copy anew.") from error

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        plan = super().plan(chosen, slices)
        if not self.adaptor.tail:
            return plan
        with self.session() as session:
            return with_entries(plan, session, self.adaptor.publication)

    def check_followed(self, plan: CopyPlan, chosen: Namespaces) -> None:
        watch = TableWatch.of_plan(plan, self.adaptor.publication, chosen)
        with self.session() as session:
            check_complete(session, self.adaptor.publication, (), slot=self.adaptor.slot)  # without it, every table would be missing
            check_complete(session, self.adaptor.publication, watch.check(session), slot=self.adaptor.slot)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        return follow(self.adaptor, cursor, chosen, stopped)

    def slices(self, session: PostgresSession, table: PostgresTable, count: int) -> list[Slice]:
        key = list(table.key)
        if not key:
            return [Slice(table.namespace, {"key": [], "table": name, "from": None, "to": None}) for name in leaves(session, table)]
        bounds = [None, *(_cuts(session, table, count) if count > 1 else ()), None]
        return [Slice(table.namespace, {"key": key, "table": table.quoted, "from": low, "to": high}) for low, high in pairwise(bounds)]


def _cuts(session: PostgresSession, source_table: PostgresTable, slices: int) -> list[list[str]]:
    """Keys, as text, that divide the table into about equal parts."""
    wanted = slices * SAMPLE
    guessed = max(source_table.rows, source_table.bytes // 200, 1)
    share = 100.0 if source_table.partitioned else min(100.0, 100.0 * wanted / guessed)
    sample = f"TABLESAMPLE SYSTEM ({share:.6f}) REPEATABLE (1)" if share < 100 else ""
    names = ", ".join(quote(name) for name in source_table.key)
    texts = ", ".join(f"s.{quote(name)}::text" for name in source_table.key)
    firsts = (
        f"SELECT {texts} FROM (SELECT {names}, part, row_number() OVER (PARTITION BY part ORDER BY {names}) AS place "
        f"FROM (SELECT {names}, ntile({slices}) OVER (ORDER BY {names}) AS part FROM {source_table.quoted} {sample}) n) s "
        f"WHERE s.place = 1 AND s.part > 1 ORDER BY s.part"
    )
    return [list(row) for row in session.ask(firsts)]


def _statement(
    session: PostgresSession, source_table: PostgresTable, columns: Sequence[PostgresColumn], spec: dict[str, Any], position: Any
) -> str:
    """COPY of the slice behind the position: the document, then what the next position is made of."""

    def literals(key: Sequence[str]) -> str:
        parts = []
        for name, text in zip(source_table.key, key, strict=True):
            column = source_table.column(name)
            assert column is not None
            parts.append(f"{Literal(text).as_string(session.link)}::{column.declared}")
        return f"({', '.join(parts)})"

    tests: list[str] = []
    body = document(columns)
    if not spec["key"]:
        if position is not None:
            tests.append(f"t.ctid > {Literal(position['row'][0]).as_string(session.link)}::tid")
        chosen, order = f"{body}, t.ctid::text", ""
    else:
        names = ", ".join(f"t.{quote(name)}" for name in source_table.key)
        if position is not None:
            tests.append(f"({names}) > {literals(position['key'])}")
        elif spec["from"] is not None:
            tests.append(f"({names}) >= {literals(spec['from'])}")
        if spec["to"] is not None:
            tests.append(f"({names}) < {literals(spec['to'])}")
        chosen = f"{body}, {', '.join(f't.{quote(name)}::text' for name in source_table.key)}"
        order = f" ORDER BY {names}"
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"COPY (SELECT {chosen} FROM {spec['table']} t{where}{order}) TO STDOUT (FORMAT binary)"
