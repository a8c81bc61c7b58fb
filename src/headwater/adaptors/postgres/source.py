"""Reading PostgreSQL's tables: cut by ranges of the primary key, streamed by COPY as JSON text that the server itself makes.

A slice is read by one statement, so by one snapshot. After a restart the rest is read by another one: what changed meanwhile comes with
the changes, whose beginning was taken before the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from headwater.adaptors.postgres.adaptor import Postgres
from headwater.adaptors.postgres.check import source as check_source
from headwater.adaptors.postgres.connection import connect, library, meaning, place, translated
from headwater.adaptors.postgres.outflow import pieces
from headwater.adaptors.postgres.tables import PostgresColumn, PostgresTable, document, estimated_rows, leaves, quote, table, tables
from headwater.adaptors.postgres.tail import follow, prepare
from headwater.adaptors.sql.adaptor import SqlSource
from headwater.adaptors.sql.table import split_name
from headwater.core.errors import Differs
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_progress import CopySize

if TYPE_CHECKING:
    from headwater.adaptors.postgres.connection import Connection

PIECE = 4 << 20  # bytes
SAMPLE = 2000  # rows looked at for each slice, to cut a table into parts of about the same size


class PostgresSource(SqlSource[Postgres]):
    """The tables of one database."""

    def check(self, chosen: Namespaces) -> list[str]:
        adaptor = self.adaptor
        return check_source(adaptor.address(), chosen, adaptor.slot if adaptor.tail else None, adaptor.publication)

    def cursor(self, chosen: Namespaces) -> Any:
        return prepare(self.adaptor.address(), self.adaptor.slot, self.adaptor.publication, chosen)

    def cut(self, chosen: Namespaces, slices: int, cursor: Any) -> CopyPlan:
        with self._connected() as link:
            found = tables(link, chosen)
            cut = tuple(part for one in found for part in _slices(link, one, slices))
            size = CopySize.about(estimated_rows(link, found))
        return CopyPlan(
            identity={"tables": {one.namespace: [one.oid, list(one.key)] for one in found}},
            slices=cut,
            ids={one.namespace: ids for one in found if (ids := one.ids or one.key)},
            cursor=cursor,
            size=size,
        )

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        """Whether the planned tables are still the same tables with the same keys."""
        with self._connected() as link:
            for namespace, (oid, key) in plan.identity["tables"].items():
                now = table(link, *split_name(namespace, ""))
                if now is None or now.oid != oid or list(now.key) != key:
                    return False
        return True

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The slice's rows behind `position`, which is the last key read, or the last row's place where there is no key."""
        psycopg, uri = library(), self.adaptor.address()
        with connect(uri) as link:
            try:
                one = table(link, *split_name(part.namespace, ""))
                if one is None or list(one.key) != part.spec["key"]:
                    raise Differs(f"The table {part.namespace} is not what it was when the copy was planned.", hint="Begin the copy anew.")
                link.execute("SET max_parallel_workers_per_gather = 0")  # parallel workers would mix the order
                # Changes come without the columns that the server makes itself: a document must not lose a field by being changed.
                columns = [column for column in one.columns if not (self.adaptor.tail and column.generated)]
                statement = _statement(link, one, columns, part.spec, position)
                yield from pieces(link, statement, "key" if part.spec["key"] else "row", PIECE)
            except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
                raise Differs(f"The table {part.namespace} has changed under the copy: {error}.", hint="Begin the copy anew.") from error
            except psycopg.Error as error:
                raise meaning(error, place(uri)) from error

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        return follow(self.adaptor.address(), self.adaptor.slot, self.adaptor.publication, cursor, chosen, stopped)

    def whole(self, schema: str, name: str) -> list[Slice]:
        with self._connected() as link:
            found = table(link, schema, name)
            return _slices(link, found, 1) if found is not None else []

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        uri = self.adaptor.address()
        with connect(uri) as link, translated(place(uri)):
            yield link


def _slices(link: Connection, one: PostgresTable, slices: int) -> list[Slice]:
    if not one.key:
        return [Slice(one.namespace, {"key": [], "table": name, "from": None, "to": None}) for name in leaves(link, one)]
    cuts = _cuts(link, one, slices) if slices > 1 else []
    bounds = [None, *cuts, None]
    return [Slice(one.namespace, {"key": list(one.key), "table": one.quoted, "from": low, "to": high}) for low, high in pairwise(bounds)]


def _cuts(link: Connection, one: PostgresTable, slices: int) -> list[list[str]]:
    """Keys, as text, that divide the table into about equal parts."""
    wanted = slices * SAMPLE
    guessed = max(one.rows, one.bytes // 200, 1)
    share = 100.0 if one.partitioned else min(100.0, 100.0 * wanted / guessed)
    sample = f"TABLESAMPLE SYSTEM ({share:.6f}) REPEATABLE (1)" if share < 100 else ""
    names = ", ".join(quote(name) for name in one.key)
    texts = ", ".join(f"s.{quote(name)}::text" for name in one.key)
    firsts = (
        f"SELECT {texts} FROM (SELECT {names}, part, row_number() OVER (PARTITION BY part ORDER BY {names}) AS place "
        f"FROM (SELECT {names}, ntile({slices}) OVER (ORDER BY {names}) AS part FROM {one.quoted} {sample}) n) s "
        f"WHERE s.place = 1 AND s.part > 1 ORDER BY s.part"
    )
    return [list(row) for row in link.execute(firsts)]


def _statement(link: Connection, one: PostgresTable, columns: Sequence[PostgresColumn], spec: dict[str, Any], position: Any) -> str:
    """COPY of the slice behind the position: the document, then what the next position is made of."""
    sql = library().sql

    def literals(key: Sequence[str]) -> str:
        parts = []
        for name, text in zip(one.key, key, strict=True):
            column = one.column(name)
            assert column is not None
            parts.append(f"{sql.Literal(text).as_string(link)}::{column.declared}")
        return f"({', '.join(parts)})"

    tests: list[str] = []
    body = document(columns)
    if not spec["key"]:
        if position is not None:
            tests.append(f"t.ctid > {sql.Literal(position['row'][0]).as_string(link)}::tid")
        chosen, order = f"{body}, t.ctid::text", ""
    else:
        names = ", ".join(f"t.{quote(name)}" for name in one.key)
        if position is not None:
            tests.append(f"({names}) > {literals(position['key'])}")
        elif spec["from"] is not None:
            tests.append(f"({names}) >= {literals(spec['from'])}")
        if spec["to"] is not None:
            tests.append(f"({names}) < {literals(spec['to'])}")
        chosen = f"{body}, {', '.join(f't.{quote(name)}::text' for name in one.key)}"
        order = f" ORDER BY {names}"
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"COPY (SELECT {chosen} FROM {spec['table']} t{where}{order}) TO STDOUT (FORMAT binary)"
