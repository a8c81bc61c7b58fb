"""Merges the rows of a store with the events of the log's tail, by number, and decides between events of one number."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain

from headwater.core.errors import Damaged
from headwater.journal.change import EventRow
from headwater.journal.settings import Duplicates


class DuplicateCount:
    """How many events gave way to another one of the same number."""

    __slots__ = ("dropped",)

    def __init__(self) -> None:
        self.dropped = 0


def merged(stored: Iterable[list[EventRow]], tails: Iterable[Iterator[EventRow]]) -> Iterator[EventRow]:
    """All rows, by number and then by their place in the log. Each of `tails` is sorted by number, and so are the stored rows."""
    return heapq.merge(chain.from_iterable(stored), *tails, key=_order)


def distinct(rows: Iterable[EventRow], policy: Duplicates, count: DuplicateCount, id: str) -> Iterator[EventRow]:
    """One row for each number, as the policy says: the answer does not depend on which of them the store holds.

    Rows of one place are one event, which the store and the log both hold. Errors: `Damaged` under the policy `fail`.
    """
    candidate_row: EventRow | None = None
    for row in rows:
        if candidate_row is None:
            candidate_row = row
        elif row.seq_nr != candidate_row.seq_nr:
            yield candidate_row
            candidate_row = row
        elif (row.partition, row.offset) != (candidate_row.partition, candidate_row.offset):
            if policy == "fail":
                raise duplicate(id, candidate_row, row)
            count.dropped += 1
            if policy == "last":
                candidate_row = row
    if candidate_row is not None:
        yield candidate_row


def duplicate(id: str, row: EventRow, other_row: EventRow) -> Damaged:
    """The error for two events of one number."""
    return Damaged(
        f"Journal {id!r:.60} has event {row.seq_nr} twice: at offsets {row.offset} and {other_row.offset} of partition "
        f"{other_row.partition}.",
        hint='Two writers have numbered events themselves. Read one of them with journal.duplicates = "first" or "last".',
    )


def each_once(rows: list[EventRow]) -> bool:
    """Whether rows hold each number once. Counting from the first to the last does not tell: gaps hide duplicates."""
    return len({row.seq_nr for row in rows}) == len(rows)


def _order(row: EventRow) -> tuple[int, int, int]:
    return row.seq_nr, row.partition, row.offset
