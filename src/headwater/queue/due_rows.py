"""Rows that are due, the first of them first: by priority, process date and id, which is the order of insertion."""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from itertools import count

from headwater.queue.columns import NOWHERE, RowColumns
from headwater.queue.date_heap import NEVER

_SLOT = (1 << 32) - 1
_NUMBERS = 40  # bits of the numbers of one bin's run
_FEW = 64
_LAST = 256  # beyond every priority


class _Bin:
    """The due rows of one priority. Most come in their order, and stand in `run`; the others in `heap`."""

    __slots__ = ("head", "heap", "heaped", "last", "live", "run", "tail")

    def __init__(self, number: int) -> None:
        self.run: deque[int] = deque()
        self.head = self.tail = number << _NUMBERS  # the places of the run's first row, and of the next one
        self.last = 0
        self.heap: list[int] = []
        self.heaped = -(number + 3)  # the place of the rows in the heap
        self.live = 0  # rows that stand here; the other entries are of rows that have gone


class DueRows:
    """An order of slots. A row's column `places` tells where it stands; entries whose row has gone elsewhere are passed over."""

    def __init__(self, columns: RowColumns, numbers: count[int]) -> None:
        """`numbers`: gives each bin a number that no other has."""
        self._columns, self._numbers = columns, numbers
        self._bins: dict[int, _Bin] = {}
        self._active: list[int] = []  # priorities that have an entry, sorted

    def add(self, slot: int) -> None:
        """A row has become due."""
        columns = self._columns
        priority = columns.priorities[slot]
        bin = self._bins.get(priority)
        if bin is None:
            bin = self._bins[priority] = _Bin(next(self._numbers))
        if not (bin.run or bin.heap):
            if priority not in self._active:
                insort(self._active, priority)
            bin.last = 0
        rank = columns.processes[slot] << 64 | columns.ids[slot]
        if rank >= bin.last:
            bin.run.append(slot)
            columns.places[slot] = bin.tail
            bin.tail += 1
            bin.last = rank
        else:
            heapq.heappush(bin.heap, rank << 32 | slot)
            columns.places[slot] = bin.heaped
        bin.live += 1
        if len(bin.run) + len(bin.heap) > _FEW + 2 * bin.live:
            self._cut(bin)

    def first(self, below: int = _LAST) -> int:
        """The slot of the first row among those of priorities below `below`; -1: there is none."""
        active = self._active
        while active and active[0] < below:
            bin = self._bins[active[0]]
            slot = self._first_of(bin)
            if slot >= 0:
                return slot
            active.pop(0)
        return -1

    def remove(self, slot: int) -> None:
        """A row that stands here goes elsewhere."""
        self._columns.places[slot] = NOWHERE
        bin = self._bins[self._columns.priorities[slot]]
        bin.live -= 1
        if bin.run and bin.run[0] == slot:
            bin.run.popleft()
            bin.head += 1

    def oldest(self) -> int:
        """The earliest process date; `NEVER` where no row is due."""
        slots = [slot for priority in self._active if (slot := self._first_of(self._bins[priority])) >= 0]
        return min((self._columns.processes[slot] for slot in slots), default=NEVER)

    def _first_of(self, bin: _Bin) -> int:
        places, run = self._columns.places, bin.run
        while run and places[run[0]] != bin.head:
            run.popleft()
            bin.head += 1
        if not bin.heap:
            return run[0] if run else -1
        columns, heap = self._columns, bin.heap
        while heap:
            slot = heap[0] & _SLOT
            if places[slot] == bin.heaped and columns.processes[slot] << 64 | columns.ids[slot] == heap[0] >> 32:
                break
            heapq.heappop(heap)
        if not heap:
            return run[0] if run else -1
        if not run:
            return heap[0] & _SLOT
        first = columns.processes[run[0]] << 64 | columns.ids[run[0]]
        return run[0] if first < heap[0] >> 32 else heap[0] & _SLOT

    def _cut(self, bin: _Bin) -> None:
        """Forget entries of rows that have gone: a key that is put a million times before it is claimed would leave as many."""
        columns = self._columns
        numbered = enumerate(bin.run, bin.head)
        run = [slot for number, slot in numbered if columns.places[slot] == number]
        bin.head, bin.run = bin.tail, deque(run)
        for number, slot in enumerate(run, bin.head):
            columns.places[slot] = number
        bin.tail = bin.head + len(run)
        slots = {entry & _SLOT: entry for entry in bin.heap}
        ranks = {slot: (columns.processes[slot] << 64 | columns.ids[slot]) << 32 | slot for slot in slots}
        bin.heap = sorted(rank for slot, rank in ranks.items() if columns.places[slot] == bin.heaped)
