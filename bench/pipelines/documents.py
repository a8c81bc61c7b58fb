"""The documents that are moved: about 165 bytes of JSON each, the same for everybody, as lines, as rows and as Arrow's columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

SCHEMA = "_id LONG, customer STRING, card STRING, qty LONG, price DOUBLE, note STRING"  # as Spark says it
COLUMNS = "_id bigint PRIMARY KEY, customer text, card text, qty bigint, price double precision, note text"  # as PostgreSQL does
CARD, NOTE = "4111 1111 1111 1111", "x" * 60
_AT_ONCE = 10_000


def lines(path: Path, count: int) -> Path:
    """A file of JSON lines."""
    with path.open("w") as out:
        for first in range(0, count, _AT_ONCE):
            out.writelines(map(_line, range(first, min(first + _AT_ONCE, count))))
    return path


def texts(count: int) -> list[bytes]:
    """The same without line ends."""
    return [_line(n).rstrip().encode() for n in range(count)]


def _line(n: int) -> str:
    who = f'"_id":{n},"customer":"customer {n % 1000}","card":"{CARD}"'
    return f'{{{who},"qty":{n % 7},"price":{n % 1000}.5,"note":"{NOTE}"}}\n'


def rows(table: str, count: int) -> str:
    """A statement that fills a table of PostgreSQL with them."""
    return (
        f"INSERT INTO {table} SELECT n, 'customer ' || n % 1000, '{CARD}', n % 7, n % 1000 + 0.5, repeat('x', {len(NOTE)}) "
        f"FROM generate_series(0, {count - 1}) n"
    )


def tuples(count: int) -> list[tuple[int, str, str, int, float, str]]:
    return [(n, f"customer {n % 1000}", CARD, n % 7, n % 1000 + 0.5, NOTE) for n in range(count)]


def table(count: int) -> pa.Table:
    """What must have arrived, in the order of ids."""
    ids = np.arange(count)
    names = pa.array([f"customer {n}" for n in range(1000)])
    return pa.table(
        {
            "_id": pa.array(ids),
            "customer": names.take(pa.array(ids % 1000)),
            "card": pa.array([CARD]).take(pa.array(np.zeros(count, np.int64))),
            "qty": pa.array(ids % 7),
            "price": pa.array(ids % 1000 + 0.5),
            "note": pa.array([NOTE]).take(pa.array(np.zeros(count, np.int64))),
        }
    )
