"""A heap of dates of rows: due dates, ends of leases, expiries. Entries of rows that have changed since stay until they come up."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import numpy as np

NEVER = 1 << 62
"""Later than any date."""

_SLOT = (1 << 32) - 1
_ID = (1 << 64) - 1
_FEW = 1024
_PART = 1000  # entries that come into the heap at once
_NONE = NEVER << 96  # behind every entry

Holds = Callable[[int, int, int], bool]


class DateHeap:
    """Dates, each with the id and the slot of its row, the earliest first; for one date by id.

    An entry is one number, which takes less memory than a tuple, and less time to compare. `holds` says of (date, id, slot) whether the
    entry is still true.
    """

    __slots__ = ("_filled", "_following", "_heap", "_holds", "_later", "_most", "earliest")

    def __init__(self, holds: Holds) -> None:
        self._heap: list[int] = []
        self._filled: Iterator[list[int]] = iter(())  # what `fill` has brought, some entries at a time
        self._following: list[int] = []  # those that come into the heap next
        self._later = _NONE  # the first of them
        self._holds = holds
        self._most = _FEW
        self.earliest = NEVER
        """No entry that holds has an earlier date. The entry of this date may no longer hold, or be gone."""

    def push(self, date: int, id: int, slot: int) -> None:
        """Pushing an entry twice is no error: it comes up twice, unless it no longer holds."""
        heapq.heappush(self._heap, date << 96 | id << 32 | slot)
        if date < self.earliest:
            self.earliest = date
        if len(self._heap) > self._most:
            self._cut()

    def next_date(self) -> int:
        """The earliest date that holds, or `NEVER`."""
        heap, date = self._heap, NEVER
        while heap or self._later < _NONE:
            if not heap or heap[0] > self._later:
                self._take_more()
            entry = heap[0]
            if self._holds(entry >> 96, entry >> 32 & _ID, entry & _SLOT):
                date = entry >> 96
                break
            heapq.heappop(heap)
        self.earliest = date
        return date

    def pop(self, until: int) -> int:
        """Take the earliest entry that holds, where its date is `until` or before; return its slot. -1: there is none."""
        return heapq.heappop(self._heap) & _SLOT if self.next_date() <= until else -1

    def fill(self, dates: np.ndarray, ids: np.ndarray, slots: np.ndarray) -> None:
        """Begin with these, which are in their order. They enter the heap by and by: a million of its numbers take time, and memory."""
        self._heap, self._filled = [], _parts(dates, ids, slots)
        self._prepare()
        self.earliest = self._later >> 96

    def _take_more(self) -> None:
        self._heap += self._following
        heapq.heapify(self._heap)
        self._most = max(self._most, _FEW + 2 * len(self._heap))
        self._prepare()

    def _prepare(self) -> None:
        self._following = next(self._filled, [])
        self._later = self._following[0] if self._following else _NONE

    def _cut(self) -> None:
        """Leases mostly end early: without this, an hour of claims would stay in memory."""
        self._heap = [entry for entry in self._heap if self._holds(entry >> 96, entry >> 32 & _ID, entry & _SLOT)]
        heapq.heapify(self._heap)
        self._most = _FEW + 2 * len(self._heap)


def _parts(dates: np.ndarray, ids: np.ndarray, slots: np.ndarray) -> Iterator[list[int]]:
    for at in range(0, len(dates), _PART):
        some = zip(*(column[at : at + _PART].tolist() for column in (dates, ids, slots)), strict=True)
        yield [date << 96 | id << 32 | slot for date, id, slot in some]
