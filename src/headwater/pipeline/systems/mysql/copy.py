"""Reading tables of MariaDB and MySQL: cut by ranges of the primary key, as JSON text that the server itself makes.

A slice is read in pages behind the last key, all of one snapshot. After a restart the rest is of another: what changed meanwhile comes
with the changes, whose beginning was taken before the copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from headwater.core.errors import Differs, TooLarge
from headwater.pipeline import values
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.mysql.link import Where, ask, connected, do, library, quote
from headwater.pipeline.systems.mysql.tables import Table, document, table, tables
from headwater.pipeline.systems.sql.table import split_name

PAGE = 2 << 20  # bytes, about
PAGE_ROWS = 5000


def plan(where: Where, chosen: Namespaces, slices: int, cursor: Any) -> CopyPlan:
    """Cut the chosen tables."""
    with connected(where) as link:
        found = tables(link, where.database, chosen)
        cut = tuple(part for one in found for part in _slices(link, one, slices))
    return CopyPlan(
        identity={"tables": {one.namespace: [one.made, list(one.key)] for one in found}},
        slices=cut,
        ids={one.namespace: one.key for one in found if one.key},
        cursor=cursor,
    )


def same(where: Where, stored: CopyPlan) -> bool:
    """Whether the planned tables are still there with the same keys."""
    with connected(where) as link:
        for namespace, (_, key) in stored.identity["tables"].items():
            now = table(link, *split_name(namespace, where.database))
            if now is None or list(now.key) != key:
                return False
    return True


def read(where: Where, part: Slice, position: Any) -> Iterator[Piece]:
    """The slice's rows behind `position`: the last key read, or the count of rows where there is no key to go on from."""
    with connected(where, read_timeout=600) as link:
        one = table(link, *split_name(part.namespace, where.database))
        if one is None or list(one.key) != part.spec["key"]:
            raise Differs(f"The table {part.namespace} is not what it was when the copy was planned.", hint="Begin the copy anew.")
        do(link, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        yield from _pages(link, one, part.spec, position) if one.sliced else _stream(link, one, position)


def whole(where: Where, schema: str, name: str) -> list[Slice]:
    """A table in as few slices as there can be; none where it is not there."""
    with connected(where) as link:
        found = table(link, schema, name)
        return _slices(link, found, 1) if found is not None else []


def _pages(link: Any, one: Table, spec: dict[str, Any], position: Any) -> Iterator[Piece]:
    limit = max(1, min(PAGE_ROWS, PAGE // max(one.row_bytes, 1)))
    order = ", ".join(f"t.{quote(name)}" for name in one.key)
    last = position["key"] if position is not None else None
    while True:
        tests: list[str] = []
        if last is not None:
            tests.append(_behind(link, one.key, last, equal=False))
        elif spec["from"] is not None:
            tests.append(_behind(link, one.key, spec["from"], equal=True))
        if spec["to"] is not None:
            tests.append("NOT " + _behind(link, one.key, spec["to"], equal=True))
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        question = f"SELECT {document(one)} FROM {one.quoted} t{where} ORDER BY {order} LIMIT {limit}"
        found = [_text(row[0], one) for row in ask(link, question)]
        if not found:
            return
        decoded = values.decode(found[-1])
        last = [decoded[name] for name in one.key]
        yield Piece(position={"key": last}, values=found)
        if len(found) < limit:
            return


def _stream(link: Any, one: Table, position: Any) -> Iterator[Piece]:
    """Without a key that sorts as it compares: all rows in the order in which the server keeps them, those read before passed over."""
    done = position["rows"] if position is not None else 0
    cursor = link.cursor(library().cursors.SSCursor)
    cursor.execute(f"SELECT {document(one)} FROM {one.quoted} t")
    seen = 0
    try:
        while page := cursor.fetchmany(1000):
            seen += len(page)
            fresh = page[max(0, done - (seen - len(page))) :]
            if fresh:
                yield Piece(position={"rows": seen}, values=[_text(row[0], one) for row in fresh])
    finally:
        link._force_close()  # closing the cursor would first read all that is left


def _slices(link: Any, one: Table, slices: int) -> list[Slice]:
    cuts = _cuts(link, one, slices) if slices > 1 and one.sliced else []
    bounds = [None, *cuts, None]
    return [Slice(one.namespace, {"key": list(one.key), "from": low, "to": high}) for low, high in pairwise(bounds)]


def _cuts(link: Any, one: Table, slices: int) -> list[list[Any]]:
    """Keys that divide the table into about equal parts, found by walking its index."""
    order = ", ".join(f"t.{quote(name)}" for name in one.key)
    count = ask(link, f"SELECT COUNT(*) FROM {one.quoted}")[0][0] if one.rows < 1_000_000 else one.rows
    found: list[list[Any]] = []
    for number in range(1, slices):
        page = ask(link, f"SELECT {document(one)} FROM {one.quoted} t ORDER BY {order} LIMIT 1 OFFSET {count * number // slices}")
        if not page:
            break
        row = values.decode(_text(page[0][0], one))
        key = [row[name] for name in one.key]
        if key not in found:
            found.append(key)
    return found


def _behind(link: Any, names: Sequence[str], key: Sequence[Any], *, equal: bool) -> str:
    """A test for keys behind one, column by column: servers do not use their index for a comparison of lists."""
    columns = [f"t.{quote(name)}" for name in names]
    texts = [link.escape(literal(one)) for one in key]
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


def _text(value: Any, one: Table) -> bytes:
    if value is None:
        raise TooLarge(f"A row of {one.namespace} is larger than the server's max_allowed_packet.", hint="Raise max_allowed_packet.")
    data = value.encode() if isinstance(value, str) else bytes(value)
    if b"\n" in data or b"\r" in data:  # JSON columns keep their line breaks, and lines of JSON must not have any
        return values.encode(values.decode(data))
    return data
