"""Reading SQLite: tables by ranges of rowid, or in the order of their key where they have no rowid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from headwater.adaptors.file.locations import file_locations
from headwater.adaptors.sql.table import quote
from headwater.adaptors.sqlite.adaptor import Sqlite
from headwater.adaptors.sqlite.columns import comparable
from headwater.adaptors.sqlite.session import OWN, SqliteSession
from headwater.core.errors import Differs, NotFound, Unavailable, Unsupported
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize

_ROWS = 5000
_BYTES = 4 << 20  # of documents in a piece
_PLAIN = frozenset({type(None), int, float, str})  # JSON has no bytes
_LEAST = 20_000


class SqliteSource(SourceAdaptor[Sqlite]):
    """The tables of a database file."""

    def check(self, chosen: Namespaces) -> list[str]:
        with _opened(self.adaptor) as db:
            names = self._tables(db, chosen)
        return [f"{len(names)} tables: {', '.join(names)}"]

    def locations(self, chosen: Namespaces) -> list[Location]:
        """The file itself, for sinks that write files, and its tables."""
        with _opened(self.adaptor) as db:
            tables = self._tables(db, chosen)
        inside = database_system(self.adaptor)
        # The one without a name: by it a sink tells a source that reads the file as a database, though it has no table yet.
        named = (Location(inside, table, folded=True) for table in tables)
        return [*file_locations(self.adaptor.file), Location(inside), *named]

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        parts: list[Slice] = []
        ids: dict[str, tuple[str, ...]] = {}
        rows = 0
        with _opened(self.adaptor) as db:
            inode = self.adaptor.file.stat().st_ino
            for name in self._tables(db, chosen):
                info: list[Any] = db.execute(f"pragma table_info({quote(name)})").fetchall()
                keys = tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])
                rowid = _rowid(name, [row[1].lower() for row in info])
                ids[name] = keys or (rowid,)
                parts += [Slice(name, {**spec, "inode": inode}) for spec in _cut(db, name, keys, rowid, slices)]
                counted: Any = db.execute(f"select count(*) from {quote(name)}").fetchone()  # cheap beside the copy
                rows += counted[0]
        identity = {"path": str(self.adaptor.file.absolute()), "tables": list(ids)}
        return CopyPlan(identity=identity, slices=tuple(parts), ids=ids, size=CopySize.about(rows))

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        """Whether it is the same file. Its rows may have changed: no mark tells so."""
        return Path(plan.identity["path"]).resolve() == self.adaptor.file.resolve()

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        with _opened(self.adaptor) as db:
            if self.adaptor.file.stat().st_ino != part.spec.get("inode", self.adaptor.file.stat().st_ino):
                raise Differs(
                    f"{self.adaptor.file} is another file than the one whose copy began.",
                    hint="Put it back, or read it anew from its beginning with `headwater pipeline run FILE --again`.",
                )
            yield from _by_rowid(db, part, position) if "rowid" in part.spec else _by_key(db, part, position)

    def _tables(self, db: apsw.Connection, chosen: Namespaces) -> list[str]:
        """The chosen tables. Errors: `NotFound` where there are none."""
        every = [row[0] for row in db.execute("select name from sqlite_master where type = 'table' order by 1")]
        user_tables = [name for name in every if not name.lower().startswith("sqlite_")]
        names = [name for name in user_tables if name in chosen and name not in OWN]
        if not names:
            raise NotFound(f"{self.adaptor.file} has no table that {chosen} chooses.", hint=f"It has {', '.join(user_tables) or 'none'}.")
        return names


@contextmanager
def _opened(adaptor: Sqlite) -> Iterator[apsw.Connection]:
    """The database, read-only. Errors: `NotFound`, and those of `SqliteSession`."""
    path = str(adaptor.file)
    if not adaptor.file.exists():
        raise NotFound(f"There is no database {path}.", hint="Look at the path; a relative one begins where the pipeline is run.")
    with SqliteSession(path, read_only=True) as session:
        try:
            yield session.db
        except UnicodeDecodeError as error:  # in a name, or in a sink's row
            raise Unavailable(
                f"{path} has text that is not in UTF-8: {error.object[:50]!r}.", hint="Look for it with `hex`, and correct it."
            ) from error


def database_system(adaptor: Sqlite) -> str:
    """The system of a database's tables: its file, whatever name it is opened by."""
    return f"sqlite {file_locations(adaptor.file)[-1].name}"


def _rowid(table: str, columns: list[str]) -> str:
    """A name of the rowid that no column has: by a column of that name, rows with equal values would be skipped."""
    free = [name for name in ("rowid", "_rowid_", "oid") if name not in columns]
    if not free:
        raise Unsupported(f"Table {table} has columns named rowid, _rowid_ and oid: its rowid has no name.", hint="Rename one.")
    return free[0]


def _cut(db: apsw.Connection, name: str, keys: tuple[str, ...], rowid: str, slices: int) -> list[dict[str, Any]]:
    try:
        ends: list[Any] = db.execute(f"select min({rowid}), max({rowid}) from {quote(name)}").fetchall()
    except apsw.SQLError as error:
        if "no such column" not in str(error):
            raise
        # A table without rowid: in the order of its key, as one slice.
        return [{"keys": list(keys)}]
    low, high = ends[0]
    if low is None:
        return [{"rowid": [0, 0], "named": bool(keys), "called": rowid}]
    count = max(1, min(slices, (high - low + 1) // _LEAST))
    cuts = [low + (high - low + 1) * i // count for i in range(count + 1)]
    return [{"rowid": [cuts[i], cuts[i + 1]], "named": bool(keys), "called": rowid} for i in range(count)]


def _by_rowid(db: apsw.Connection, part: Slice, position: Any) -> Iterator[Piece]:
    low, end = part.spec["rowid"]
    begin = 1 if part.spec["named"] else 0  # without a primary key, the rowid is the id of a row
    rowid = part.spec.get("called", "rowid")
    select = f"select {rowid} as {rowid}, * from {quote(part.namespace)} where {rowid}"
    while True:
        bounds = (low if position is None else position, end - 1)  # inclusive: no integer lies above the greatest rowid
        query = f"{select} {'>=' if position is None else '>'} ? and {rowid} <= ? order by {rowid} limit {_ROWS}"
        piece = _piece(db, query, bounds, part.namespace, begin)
        if piece.last is None:
            return
        position = piece.last[0]
        yield Piece(position=position, values=piece.values, bad=piece.bad)


def _by_key(db: apsw.Connection, part: Slice, position: Any) -> Iterator[Piece]:
    """Rows in the order of the key. A position is extended JSON, so that bytes survive the log; text that is not in UTF-8 is a list with
    its bytes in hex."""
    keys = part.spec["keys"]
    order = ", ".join(quote(name) for name in keys)
    while True:
        last_key = position or []
        # Bytes of text are literals of the statement: SQLite takes parameters for UTF-8, whatever the database's encoding.
        ends = [f"cast(x'{bytes.fromhex(cell[0]).hex()}' as text)" if isinstance(cell, list) else "?" for cell in last_key]
        where = f"where ({order}) > ({', '.join(ends)})" if last_key else ""
        bounds = [values.native(cell) for cell in last_key if not isinstance(cell, list)]
        query = f"select {order}, * from {quote(part.namespace)} {where} order by {order} limit {_ROWS}"
        piece = _piece(db, query, bounds, part.namespace, len(keys))
        if piece.last is None:
            return
        position = [[cell.hex()] if isinstance(cell, _NoText) else values.tagged(values.extended(cell)) for cell in piece.last[: len(keys)]]
        yield Piece(position=position, values=piece.values, bad=piece.bad)


class _Rows(NamedTuple):
    """Rows as documents, what is wrong with some, and the last row."""

    values: list[bytes]
    bad: dict[int, str]
    last: tuple[Any, ...] | None


class _NoText(bytes):
    """Text of a column that is not in the database's encoding."""

    shown: str


def _piece(db: apsw.Connection, query: str, bounds: Sequence[Any], table: str, begin: int) -> _Rows:
    """As many rows as a piece may hold. `begin`: the first column of documents; the columns before it are the position."""
    try:
        return _read_rows(db, query, bounds, table, begin)
    except UnicodeDecodeError:  # slower, so only for pieces that need it
        return _read_rows(db, query, bounds, table, begin, lenient=True)


def _read_rows(db: apsw.Connection, query: str, bounds: Sequence[Any], table: str, begin: int, *, lenient: bool = False) -> _Rows:
    documents: list[bytes] = []
    bad: dict[int, str] = {}
    size, row = 0, None
    cursor = db.execute(query, bounds)
    columns = _columns(cursor)
    names = columns[begin:]
    for row in _lenient_rows(db, query, bounds, len(columns)) if lenient and columns else cursor:
        cells = row[begin:] if begin else row
        if lenient and (wrong := _wrong(names, cells)):
            bad[len(documents)] = f"Row {', '.join(map(str, row[: begin or 1]))} of table {table} has text that is not in UTF-8: {wrong}."
        documents.append(_document(names, cells))
        size += len(documents[-1])
        if size >= piece_size(_BYTES):
            break
    cursor.close(force=True)
    return _Rows(documents, bad, row)


def _columns(cursor: apsw.Cursor) -> list[str]:
    """The names of a query's columns; none where it has no rows: apsw describes no empty result."""
    try:
        return [column[0] for column in cursor.description]
    except apsw.ExecutionCompleteError:
        return []


def _lenient_rows(db: apsw.Connection, query: str, bounds: Sequence[Any], count: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a query with `count` columns. Text that cannot be decoded is `_NoText`."""
    encoding = db.pragma("encoding")
    names = [f"c{number}" for number in range(count)]
    # apsw decodes all text. So text is read as a blob, and a blob as text in hex, which distinguishes the two.
    cells = (f"case typeof({name}) when 'text' then cast({name} as blob) when 'blob' then hex({name}) else {name} end" for name in names)
    for row in db.execute(f"with piece ({', '.join(names)}) as ({query}) select {', '.join(cells)} from piece", bounds):
        yield tuple(_decoded(cell, encoding) for cell in row)


def _decoded(cell: Any, encoding: str) -> Any:
    if isinstance(cell, str):
        return bytes.fromhex(cell)
    if not isinstance(cell, bytes):
        return cell
    try:
        return cell.decode(encoding)
    except UnicodeDecodeError:
        wrong = _NoText(cell)
        wrong.shown = cell.decode(encoding, "backslashreplace")
        return wrong


def _wrong(names: list[str], row: Sequence[Any]) -> str:
    return ", ".join(name for name, cell in zip(names, row, strict=True) if isinstance(cell, _NoText))


def _document(names: list[str], row: Sequence[Any]) -> bytes:
    return values.store({name: cell if type(cell) in _PLAIN else _cell(cell) for name, cell in zip(names, row, strict=True)})


def _cell(value: Any) -> Any:
    return value.shown if isinstance(value, _NoText) else values.extended(value)


def rows(adaptor: Sqlite, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a sink's table, for `verify`; none where it does not exist."""
    with _opened(adaptor) as db:
        kinds = {row[1]: row[2] for row in db.execute(f"pragma table_info({quote(table)})")}
        if not kinds:
            return
        cursor = db.execute(f"select * from {quote(table)}")
        names = _columns(cursor)
        for row in cursor:
            yield {name: comparable(value, kinds.get(name, "")) for name, value in zip(names, row, strict=True) if value is not None}
