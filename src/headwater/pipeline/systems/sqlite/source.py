"""Reading SQLite: tables by ranges of rowid, or by the order of their key where they have none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.core.errors import NotFound
from headwater.pipeline import values
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.sqlite.tables import OWN, connect, machine_error, quoted

if TYPE_CHECKING:
    from headwater.pipeline.systems.sqlite.adaptor import Sqlite

_ROWS = 5000
_LEAST = 20_000


def _opened(adaptor: Sqlite) -> sqlite3.Connection:
    path = str(adaptor.path)
    if not Path(path).exists():
        raise NotFound(f"There is no database {path}.", hint="Look at the path; a relative one begins where the pipeline is run.")
    return connect(path, read_only=True)


def tables(adaptor: Sqlite, chosen: Namespaces) -> list[str]:
    """The chosen tables. Errors: `NotFound` where there are none."""
    db = _opened(adaptor)
    try:
        found = [
            row[0] for row in db.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by 1")
        ]
    except sqlite3.Error as error:
        raise machine_error(error, str(adaptor.path)) from error
    finally:
        db.close()
    names = [name for name in found if name in chosen and name not in OWN]
    if not names:
        raise NotFound(f"{adaptor.path} has no table that {chosen} chooses.", hint=f"It has {', '.join(found) or 'none'}.")
    return names


def plan(adaptor: Sqlite, chosen: Namespaces, slices: int) -> CopyPlan:
    parts: list[Slice] = []
    ids: dict[str, tuple[str, ...]] = {}
    names = tables(adaptor, chosen)
    db = _opened(adaptor)
    try:
        for name in names:
            info = db.execute(f"pragma table_info({quoted(name)})").fetchall()
            keys = tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])
            ids[name] = keys or ("rowid",)
            parts += [Slice(name, spec) for spec in _cut(db, name, keys, slices)]
    except sqlite3.Error as error:
        raise machine_error(error, str(adaptor.path)) from error
    finally:
        db.close()
    return CopyPlan(identity={"path": str(Path(str(adaptor.path)).absolute()), "tables": names}, slices=tuple(parts), ids=ids)


def _cut(db: sqlite3.Connection, name: str, keys: tuple[str, ...], slices: int) -> list[dict[str, Any]]:
    try:
        low, high = db.execute(f"select min(rowid), max(rowid) from {quoted(name)}").fetchone()
    except sqlite3.OperationalError:  # a table without rowid: in the order of its key, as one slice
        return [{"keys": list(keys)}]
    if low is None:
        return [{"rowid": [0, 0], "named": bool(keys)}]
    count = max(1, min(slices, (high - low + 1) // _LEAST))
    cuts = [low + (high - low + 1) * i // count for i in range(count + 1)]
    return [{"rowid": [cuts[i], cuts[i + 1]], "named": bool(keys)} for i in range(count)]


def read(adaptor: Sqlite, part: Slice, position: Any) -> Iterator[Piece]:
    db = _opened(adaptor)
    try:
        if "rowid" in part.spec:
            low, high = part.spec["rowid"]
            at = low if position is None else position + 1
            query = f"select rowid, * from {quoted(part.namespace)} where rowid >= ? and rowid < ? order by rowid limit {_ROWS}"
            while rows := (found := db.execute(query, (at, high))).fetchall():
                names = [column[0] for column in found.description]
                begin = 1 if part.spec["named"] else 0  # without a key of its own, the rowid is what tells rows apart
                at = rows[-1][0] + 1
                yield Piece(position=at - 1, values=[_document(names[begin:], row[begin:]) for row in rows])
            return
        yield from _by_key(db, part, position)
    except sqlite3.Error as error:
        raise machine_error(error, str(adaptor.path)) from error
    finally:
        db.close()


def _by_key(db: sqlite3.Connection, part: Slice, position: Any) -> Iterator[Piece]:
    keys = part.spec["keys"]
    order = ", ".join(quoted(name) for name in keys)
    while True:
        where = "" if position is None else f"where ({order}) > ({', '.join('?' * len(keys))})"
        found = db.execute(f"select * from {quoted(part.namespace)} {where} order by {order} limit {_ROWS}", position or [])
        rows = found.fetchall()
        if not rows:
            return
        names = [column[0] for column in found.description]
        position = [rows[-1][names.index(name)] for name in keys]
        yield Piece(position=position, values=[_document(names, row) for row in rows])


def _document(names: list[str], row: tuple[Any, ...]) -> bytes:
    return values.encode(
        {name: values.extended(value) if isinstance(value, bytes) else value for name, value in zip(names, row, strict=True)}
    )


def rows(adaptor: Sqlite, table: str) -> Iterator[dict[str, Any]]:
    """What a sink's table holds, for `verify`."""
    from headwater.pipeline.systems.sqlite.tables import table_name

    db = _opened(adaptor)
    try:
        found = db.execute(f"select * from {quoted(table_name(table))}")
        names = [column[0] for column in found.description]
        for row in found:
            yield {name: value for name, value in zip(names, row, strict=True) if value is not None}
    except sqlite3.Error as error:
        raise machine_error(error, str(adaptor.path)) from error
    finally:
        db.close()
