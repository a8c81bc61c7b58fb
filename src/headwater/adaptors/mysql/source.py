"""Reading tables of MariaDB and MySQL: cut by ranges of the primary key, as JSON text that the server itself makes.

A slice is read in pages behind the last key, all of one snapshot. After a restart the rest is of another: what changed meanwhile comes
with the changes, whose beginning was taken before the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from pymysql.cursors import SSCursor

from headwater.adaptors.mysql.adaptor import MySQL
from headwater.adaptors.mysql.connection import MySQLSession, abandon, parsed
from headwater.adaptors.mysql.table_watch import check_keys
from headwater.adaptors.mysql.tables import MysqlTable, document, identities, table, table_names, tables, written_names
from headwater.adaptors.mysql.tail import follow, prepare
from headwater.adaptors.sql.adaptor import SqlSource
from headwater.core.errors import TooLarge
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice

PIECE = 4 << 20  # bytes
PAGE = 2 << 20  # bytes, about
PAGE_ROWS = 5000
AT_ONCE = 50  # rows fetched at once, until their size is known


class MySQLSource(SqlSource[MySQL, MySQLSession, MysqlTable]):
    """The tables of one database, or of all of a server's."""

    def __init__(self, adaptor: MySQL) -> None:
        super().__init__(adaptor)
        self._where = parsed(adaptor.address())

    def session(self, **more: Any) -> MySQLSession:
        return MySQLSession(self._where, **more)

    def default_schema(self) -> str:
        return self._where.database

    def check(self, chosen: Namespaces) -> list[str]:
        with self.session() as session:
            lines = [session.version(), *map(str, tables(session, chosen))]
        if self.adaptor.tail:
            cursor = self.cursor(chosen)
            lines.append(f"the binary log is at {cursor['file']}:{cursor['pos']}")
        return lines

    def systems(self, session: MySQLSession, *, writing: bool) -> list[str]:
        return identities(session, writing=writing)

    def locations(self, chosen: Namespaces) -> list[Location]:
        """Tables that are created later are followed, too."""
        with self.session() as session:
            names = written_names(session, self.tables(session, chosen))
            folded = bool(session.one("SELECT @@lower_case_table_names"))
            systems = self.systems(session, writing=False)
        places = [Location(system, name, folded=folded) for system in systems for name in names]
        own = f"{self._where.database}." if self._where.database else ""
        return places + [Location(system, chosen=chosen, schema=own) for system in systems if self.adaptor.tail]

    def cursor(self, chosen: Namespaces) -> Any:
        return prepare(self._where, chosen)

    def tables(self, session: MySQLSession, chosen: Namespaces) -> list[MysqlTable]:
        return tables(session, chosen)

    def table(self, session: MySQLSession, schema: str, name: str) -> MysqlTable | None:
        return table(session, schema, name)

    def existing(self, session: MySQLSession, schemas: Collection[str]) -> set[str]:
        return table_names(session, schemas)

    def rows(self, session: MySQLSession, tables: list[MysqlTable]) -> int | None:
        return sum(table.rows for table in tables)

    def unchanged(self, table: MysqlTable, mark: Any) -> bool:
        return True  # an ALTER TABLE may change the time that a table was made at

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The slice's rows behind `position`: the last key read, or the count of rows where there is no key to go on from."""
        with self.session(read_timeout=600) as session:
            source_table = self.planned(session, part)
            session.do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # under another one the server ignores the snapshot
            session.do("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            if source_table.sliced:
                yield from _pages(session.link, source_table, part.spec, position)
            else:
                yield from (
                    _sorted(session.link, source_table, position) if source_table.key else _stream(session.link, source_table, position)
                )

    def check_followed(self, plan: CopyPlan, chosen: Namespaces) -> None:
        with self.session() as session:
            check_keys(session, plan, chosen)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        return follow(self._where, self.adaptor.server_id, cursor, chosen, stopped)

    def slices(self, session: MySQLSession, table: MysqlTable, count: int) -> list[Slice]:
        bounds = [None, *(_cuts(session, table, count) if count > 1 and table.sliced else ()), None]
        return [Slice(table.namespace, {"key": list(table.key), "from": low, "to": high}) for low, high in pairwise(bounds)]


def _pages(link: Any, source_table: MysqlTable, spec: dict[str, Any], position: Any) -> Iterator[Piece]:
    limit = max(1, min(PAGE_ROWS, PAGE // max(source_table.row_bytes, 1)))
    last = position["key"] if position is not None else None
    while True:
        tests: list[str] = []
        if last is not None:
            tests.append(_behind(link, source_table, last, equal=False))
        elif spec["from"] is not None:
            tests.append(_behind(link, source_table, spec["from"], equal=True))
        if spec["to"] is not None:
            tests.append("NOT " + _behind(link, source_table, spec["to"], equal=True))
        count = 0
        for rows in _read(link, _select(source_table, " AND ".join(tests)) + f" LIMIT {limit}"):
            count += len(rows)
            last = _key(rows[-1], source_table)
            yield Piece(position={"key": last}, values=[_text(row[0], source_table) for row in rows])
        if count < limit:
            return


def _sorted(link: Any, source_table: MysqlTable, position: Any) -> Iterator[Piece]:
    """Rows in the order of a key whose index a literal cannot enter: the server sorts everything behind the last key."""
    # A copy that an older version has begun counted rows: it begins again, since rows may be deleted by now.
    last = (position or {}).get("key")
    for rows in _read(link, _select(source_table, _behind(link, source_table, last, equal=False) if last is not None else "")):
        yield Piece(position={"key": _key(rows[-1], source_table)}, values=[_text(row[0], source_table) for row in rows])


def _stream(link: Any, source_table: MysqlTable, position: Any) -> Iterator[Piece]:
    """Rows of a table without a key, in the order of the server; those that were read before are skipped."""
    done = position["rows"] if position is not None else 0
    count = 0
    for rows in _read(link, f"SELECT {document(source_table)} FROM {source_table.quoted} t"):
        count += len(rows)
        fresh = rows[max(0, done - (count - len(rows))) :]
        if fresh:
            yield Piece(position={"rows": count}, values=[_text(row[0], source_table) for row in fresh])


def _select(source_table: MysqlTable, test: str) -> str:
    """A SELECT of documents in the order of the key, each with the parts of its key that the document does not have."""
    marks = "".join(f", {column.mark}" for column in source_table.places if column.mark)
    order = ", ".join(column.place for column in source_table.places)
    return f"SELECT {document(source_table)}{marks} FROM {source_table.quoted} t{f' WHERE {test}' if test else ''} ORDER BY {order}"


def _read(link: Any, question: str) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a SELECT as they arrive, as many at once as a piece may hold: a page of large rows would not fit into memory."""
    cursor = link.cursor(SSCursor)
    cursor.execute(question)
    try:
        out: list[tuple[Any, ...]] = []
        size, at_once = 0, AT_ONCE
        while page := cursor.fetchmany(at_once):
            out += page
            size += sum(len(row[0] or "") for row in page)
            if size >= piece_size(PIECE):
                yield out
                out, size = [], 0
            at_once = max(1, min(1000, PAGE * len(out) // size if size else AT_ONCE))
        if out:
            yield out
    finally:
        abandon(link, cursor)


def _cuts(session: MySQLSession, source_table: MysqlTable, slices: int) -> list[list[Any]]:
    """Keys that divide the table into about equal parts, found by walking its index."""
    count = session.one(f"SELECT COUNT(*) FROM {source_table.quoted}") if source_table.rows < 1_000_000 else source_table.rows
    keys: list[list[Any]] = []
    for number in range(1, slices):
        page = session.ask(f"{_select(source_table, '')} LIMIT 1 OFFSET {count * number // slices}")
        if not page:
            break
        key = _key(page[0], source_table)
        if key not in keys:
            keys.append(key)
    return keys


def _key(row: tuple[Any, ...], source_table: MysqlTable) -> list[Any]:
    """The row's key: of each column the literal that was read with it, or the document's value."""
    fields, marks = values.decode(_text(row[0], source_table)), iter(row[1:])
    return [_mark(next(marks)) if column.mark else values.tagged(fields[column.name], every=True) for column in source_table.places]


def _mark(value: Any) -> Any:
    """A literal as JSON: the text of a date, else the number."""
    return value.decode() if isinstance(value, bytes) else value


def _behind(link: Any, source_table: MysqlTable, key: Sequence[Any], *, equal: bool) -> str:
    """A condition for keys behind one, column by column: the servers do not use an index to compare row values."""
    columns = [column.place for column in source_table.places]
    texts = [link.escape(literal(value)) for value in key]
    tests = []
    for at, column in enumerate(columns):
        same = [f"{columns[before]} = {texts[before]}" for before in range(at)]
        tests.append("(" + " AND ".join([*same, f"{column} > {texts[at]}"]) + ")")
    if equal:
        tests.append("(" + " AND ".join(f"{column} = {text}" for column, text in zip(columns, texts, strict=True)) + ")")
    # Repeated for the first column alone, so that the server uses the index.
    return f"(({' OR '.join(tests)}) AND {columns[0]} >= {texts[0]})"


def literal(value: Any) -> Any:
    """A JSON value as PyMySQL takes it."""
    native = values.native(value)
    if isinstance(native, datetime):
        return native.astimezone(UTC).replace(tzinfo=None) if native.tzinfo else native
    return str(native) if isinstance(native, UUID) else native


def _text(value: Any, source_table: MysqlTable) -> bytes:
    if value is None:
        raise TooLarge(
            f"A row of {source_table.namespace} is larger than the server's max_allowed_packet.", hint="Raise max_allowed_packet."
        )
    data = value.encode() if isinstance(value, str) else bytes(value)
    if b"\n" in data or b"\r" in data:  # JSON columns keep their line breaks; a line of JSON must not have any
        return values.store(values.decode(data))
    return data
