"""Reading tables of MariaDB and MySQL: cut by ranges of the primary key, as JSON text that the server itself makes.

A slice is read in pages behind the last key, all of one snapshot. After a restart the rest is of another: what changed meanwhile comes
with the changes, whose beginning was taken before the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from headwater.adaptors.mysql.adaptor import MySQL
from headwater.adaptors.mysql.check import source as check_source
from headwater.adaptors.mysql.connection import abandon, ask, connected, do, library, parsed
from headwater.adaptors.mysql.tables import MysqlTable, document, table, tables
from headwater.adaptors.mysql.tail import follow, prepare
from headwater.adaptors.sql.adaptor import SqlSource
from headwater.adaptors.sql.table import split_name
from headwater.core.errors import Differs, TooLarge
from headwater.pipeline import values
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_progress import CopySize

PIECE = 4 << 20  # bytes
PAGE = 2 << 20  # bytes, about
PAGE_ROWS = 5000
AT_ONCE = 50  # rows taken from the connection, until their size is known


class MySQLSource(SqlSource[MySQL]):
    """The tables of one database, or of all of a server's."""

    def __init__(self, adaptor: MySQL) -> None:
        super().__init__(adaptor)
        self._where = parsed(adaptor.address())

    def check(self, chosen: Namespaces) -> list[str]:
        return check_source(self._where, chosen, tail=self.adaptor.tail)

    def cursor(self, chosen: Namespaces) -> Any:
        return prepare(self._where, chosen)

    def cut(self, chosen: Namespaces, slices: int, cursor: Any) -> CopyPlan:
        with connected(self._where) as link:
            found = tables(link, self._where.database, chosen)
            cut = tuple(part for one in found for part in _slices(link, one, slices))
        return CopyPlan(
            identity={"tables": {one.namespace: [one.made, list(one.key)] for one in found}},
            slices=cut,
            ids={one.namespace: one.key for one in found if one.key},
            cursor=cursor,
            size=CopySize.about(sum(one.rows for one in found)),
        )

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        """Whether the planned tables are still there with the same keys."""
        with connected(self._where) as link:
            for namespace, (_, key) in plan.identity["tables"].items():
                now = table(link, *split_name(namespace, self._where.database))
                if now is None or list(now.key) != key:
                    return False
        return True

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The slice's rows behind `position`: the last key read, or the count of rows where there is no key to go on from."""
        with connected(self._where, read_timeout=600) as link:
            one = table(link, *split_name(part.namespace, self._where.database))
            if one is None or list(one.key) != part.spec["key"]:
                raise Differs(f"The table {part.namespace} is not what it was when the copy was planned.", hint="Begin the copy anew.")
            do(link, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            if one.sliced:
                yield from _pages(link, one, part.spec, position)
            else:
                yield from _sorted(link, one, position) if one.key else _stream(link, one, position)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        return follow(self._where, self.adaptor.server_id, cursor, chosen, stopped)

    def whole(self, schema: str, name: str) -> list[Slice]:
        with connected(self._where) as link:
            found = table(link, schema, name)
            return _slices(link, found, 1) if found is not None else []


def _pages(link: Any, one: MysqlTable, spec: dict[str, Any], position: Any) -> Iterator[Piece]:
    limit = max(1, min(PAGE_ROWS, PAGE // max(one.row_bytes, 1)))
    last = position["key"] if position is not None else None
    while True:
        tests: list[str] = []
        if last is not None:
            tests.append(_behind(link, one, last, equal=False))
        elif spec["from"] is not None:
            tests.append(_behind(link, one, spec["from"], equal=True))
        if spec["to"] is not None:
            tests.append("NOT " + _behind(link, one, spec["to"], equal=True))
        count = 0
        for rows in _read(link, _select(one, " AND ".join(tests)) + f" LIMIT {limit}"):
            count += len(rows)
            last = _key(rows[-1], one)
            yield Piece(position={"key": last}, values=[_text(row[0], one) for row in rows])
        if count < limit:
            return


def _sorted(link: Any, one: MysqlTable, position: Any) -> Iterator[Piece]:
    """By a key whose index cannot be entered in the middle: all that is behind the last one, which the server sorts."""
    # A copy that an older version has begun counted rows: it goes on at the beginning, since rows may be gone by now.
    last = (position or {}).get("key")
    for rows in _read(link, _select(one, _behind(link, one, last, equal=False) if last is not None else "")):
        yield Piece(position={"key": _key(rows[-1], one)}, values=[_text(row[0], one) for row in rows])


def _stream(link: Any, one: MysqlTable, position: Any) -> Iterator[Piece]:
    """Without a key: all rows in the order in which the server keeps them, those read before passed over."""
    done = position["rows"] if position is not None else 0
    seen = 0
    for rows in _read(link, f"SELECT {document(one)} FROM {one.quoted} t"):
        seen += len(rows)
        fresh = rows[max(0, done - (seen - len(rows))) :]
        if fresh:
            yield Piece(position={"rows": seen}, values=[_text(row[0], one) for row in fresh])


def _select(one: MysqlTable, test: str) -> str:
    """Documents, and behind each what of its key the document does not tell, in the order of the key."""
    marks = "".join(f", {column.mark}" for column in one.places if column.mark)
    order = ", ".join(column.place for column in one.places)
    return f"SELECT {document(one)}{marks} FROM {one.quoted} t{f' WHERE {test}' if test else ''} ORDER BY {order}"


def _read(link: Any, question: str) -> Iterator[list[tuple[Any, ...]]]:
    """An answer's rows as they come, as many at once as a piece may hold: of a page whose rows are large, memory would not hold all."""
    cursor = link.cursor(library().cursors.SSCursor)
    cursor.execute(question)
    try:
        out: list[tuple[Any, ...]] = []
        size, at_once = 0, AT_ONCE
        while page := cursor.fetchmany(at_once):
            out += page
            size += sum(len(row[0] or "") for row in page)
            if size >= PIECE:
                yield out
                out, size = [], 0
            at_once = max(1, min(1000, PAGE * len(out) // size if size else AT_ONCE))
        if out:
            yield out
    finally:
        abandon(link, cursor)


def _slices(link: Any, one: MysqlTable, slices: int) -> list[Slice]:
    cuts = _cuts(link, one, slices) if slices > 1 and one.sliced else []
    bounds = [None, *cuts, None]
    return [Slice(one.namespace, {"key": list(one.key), "from": low, "to": high}) for low, high in pairwise(bounds)]


def _cuts(link: Any, one: MysqlTable, slices: int) -> list[list[Any]]:
    """Keys that divide the table into about equal parts, found by walking its index."""
    count = ask(link, f"SELECT COUNT(*) FROM {one.quoted}")[0][0] if one.rows < 1_000_000 else one.rows
    found: list[list[Any]] = []
    for number in range(1, slices):
        page = ask(link, f"{_select(one, '')} LIMIT 1 OFFSET {count * number // slices}")
        if not page:
            break
        key = _key(page[0], one)
        if key not in found:
            found.append(key)
    return found


def _key(row: tuple[Any, ...], one: MysqlTable) -> list[Any]:
    """What stands for the row's place: of each column of its key the mark that was read with it, or the document's value."""
    told, marks = values.decode(_text(row[0], one)), iter(row[1:])
    return [_mark(next(marks)) if column.mark else told[column.name] for column in one.places]


def _mark(value: Any) -> Any:
    """As JSON: of a date the text, else the number."""
    return value.decode() if isinstance(value, bytes) else value


def _behind(link: Any, one: MysqlTable, key: Sequence[Any], *, equal: bool) -> str:
    """A test for keys behind one, column by column: servers do not use their index for a comparison of lists."""
    columns = [column.place for column in one.places]
    texts = [link.escape(literal(value)) for value in key]
    tests = []
    for at, column in enumerate(columns):
        same = [f"{columns[before]} = {texts[before]}" for before in range(at)]
        tests.append("(" + " AND ".join([*same, f"{column} > {texts[at]}"]) + ")")
    if equal:
        tests.append("(" + " AND ".join(f"{column} = {text}" for column, text in zip(columns, texts, strict=True)) + ")")
    # Said again for the first column alone, by which the index can be entered.
    return f"(({' OR '.join(tests)}) AND {columns[0]} >= {texts[0]})"


def literal(value: Any) -> Any:
    """A JSON value as PyMySQL takes it."""
    found = values.native(value)
    if isinstance(found, datetime):
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    return str(found) if isinstance(found, UUID) else found


def _text(value: Any, one: MysqlTable) -> bytes:
    if value is None:
        raise TooLarge(f"A row of {one.namespace} is larger than the server's max_allowed_packet.", hint="Raise max_allowed_packet.")
    data = value.encode() if isinstance(value, str) else bytes(value)
    if b"\n" in data or b"\r" in data:  # JSON columns keep their line breaks, and lines of JSON must not have any
        return values.encode(values.decode(data))
    return data
