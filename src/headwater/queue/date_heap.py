"""A heap of dates of rows: due dates, ends of leases, expiries. Entries of rows that have changed since stay until they come up."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

NEVER = 1 << 62
"""Later than any date."""

_SLOT = (1 << 32) - 1
_ID = (1 << 64) - 1
_FEW = 1024

Holds = Callable[[int, int, int], bool]


class DateHeap:
    """Dates, each with the id and the slot of its row, the earliest first; for one date by id.

    An entry is one number, which takes less memory than a tuple, and less time to compare. `holds` says of (date, id, slot) whether the
    entry is still true.
    """

    __slots__ = ("_heap", "_holds", "_most", "earliest")

    def __init__(self, holds: Holds) -> None:
        self._heap: list[int] = []
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
        while heap:
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

    def fill(self, entries: Iterable[tuple[int, int, int]]) -> None:
        """Begin with these (date, id, slot)."""
        self._heap = [date << 96 | id << 32 | slot for date, id, slot in entries]
        heapq.heapify(self._heap)
        self._most = _FEW + 2 * len(self._heap)
        self.earliest = self._heap[0] >> 96 if self._heap else NEVER

    def _cut(self) -> None:
        """Leases mostly end early: without this, an hour of claims would stay in memory."""
        self._heap = [entry for entry in self._heap if self._holds(entry >> 96, entry >> 32 & _ID, entry & _SLOT)]
        heapq.heapify(self._heap)
        self._most = _FEW + 2 * len(self._heap)
