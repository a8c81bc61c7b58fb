"""The times by which rows of one number stay apart in kafka-journal's tables, whose key is the number and the millisecond.

Of two events of one number and one millisecond the later one in the log takes the next millisecond that is free, and its own one goes into
a header of its row. Rows come in the order of the log, so the same times come from every split, and again after a death in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from headwater.journal.change import EventRow
from headwater.journal.event import OWN_HEADERS

OWN_TIME = OWN_HEADERS + "timestamp"
"""The header of a row that says when its event was appended, where the column says another time."""
Taken = dict[tuple[int, int], tuple[int, int]]
"""Numbers and times of rows, and the partition and offset that each is of."""


def apart(rows: Iterable[EventRow], taken: Taken) -> Iterator[EventRow]:
    """The rows with times that no other row of their number has. `taken`: the keys that rows have; those of these rows come in."""
    for row in rows:
        place, time = (row.partition, row.offset), row.timestamp
        while taken.setdefault((row.seq_nr, time), place) != place:
            time += 1
        yield row if time == row.timestamp else replace(row, timestamp=time, headers=(*row.headers, (OWN_TIME, str(row.timestamp))))


def own_time(time: int, headers: dict[str, str]) -> tuple[int, tuple[tuple[str, str], ...]]:
    """The time of a row's event, and its user's headers: kafka-journal copies those of ours, too."""
    own = headers.get(OWN_TIME, "")
    users = tuple((name, value) for name, value in headers.items() if not name.startswith(OWN_HEADERS))
    return int(own) if own.isdecimal() and own.isascii() and len(own) < 20 else time, users
