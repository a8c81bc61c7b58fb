"""Rows that are due, the first of them first: by priority, process date and id, which is the order of insertion."""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque

from headwater.queue.body import PRIORITY, process_of
from headwater.queue.columns import HEAP, RUN, RowColumns
from headwater.queue.date_heap import NEVER

_SLOT = (1 << 32) - 1
_FEW = 64
NONE_DUE = 256
"""Beyond every priority."""


class Bin:
    """The due rows of one priority. Most come in their order, and stand in `run`; the others in `heap`."""

    __slots__ = ("gone", "heap", "last_date", "last_id", "live", "run", "skips")

    def __init__(self) -> None:
        self.run: deque[int] = deque()
        self.last_date = self.last_id = 0  # the process date and the id of the last row of the run
        self.heap: list[int] = []
        self.gone: set[int] = set()  # entries of the heap that are of rows that have gone
        self.live = 0  # rows that stand here; other entries are of rows that have gone
        self.skips: dict[int, int] = {}  # by slot: how many entries of the run, the first ones, are of rows that have gone


class DueRows:
    """An order of slots. The state of a slot tells where its row stands; entries of rows that have gone elsewhere are passed over."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self.bins: dict[int, Bin] = {}
        self.active: list[int] = []  # priorities that have an entry, sorted

    def add(self, slot: int, priority: int, process: int) -> None:
        """A row has become due."""
        columns = self._columns
        bin = self.bins.get(priority)
        if bin is None:
            bin = self.bins[priority] = Bin()
        if not bin.live:
            if priority not in self.active:
                insort(self.active, priority)
            if not bin.run:
                bin.last_date = bin.last_id = 0
        id = columns.ids[slot]
        if process > bin.last_date or (process == bin.last_date and id >= bin.last_id):
            bin.run.append(slot)
            columns.states[slot] = RUN
            bin.last_date, bin.last_id = process, id
        else:
            entry = process << 96 | id << 32 | slot
            if entry in bin.gone:
                bin.gone.remove(entry)
            else:
                heapq.heappush(bin.heap, entry)
            columns.states[slot] = HEAP
        bin.live += 1
        if len(bin.run) + len(bin.heap) > _FEW + 2 * bin.live:
            self._cut(bin)

    def fill(self, slots: list[int]) -> None:
        """Begin with these rows, which are in the order of their process dates and ids, and in the state `RUN`."""
        bodies = self._columns.bodies
        runs: dict[int, list[int]] = {}
        for slot in slots:
            priority = bodies[slot][PRIORITY]
            if priority in runs:
                runs[priority].append(slot)
            else:
                runs[priority] = [slot]
        for priority, run in runs.items():
            bin = self.bins[priority] = Bin()
            bin.run, bin.live = deque(run), len(run)
            bin.last_date, bin.last_id = process_of(bodies[run[-1]]), self._columns.ids[run[-1]]
        self.active = sorted(runs)

    def pop(self, below: int = NONE_DUE) -> int:
        """Take the first row among those of priorities below `below`; return its slot. -1: there is none."""
        active = self.active
        while active and active[0] < below:
            bin = self.bins[active[0]]
            if bin.live:
                bin.live -= 1
                if not (bin.skips or bin.heap):
                    return bin.run.popleft()
                slot = self._first_of(bin)
                if self._columns.states[slot] == HEAP:
                    heapq.heappop(bin.heap)
                else:
                    bin.run.popleft()
                return slot
            active.pop(0)
        return -1

    def pop_many(self, most: int, below: int) -> list[int]:
        """`pop` up to `most` times, as long as rows stand in their runs."""
        slots, active = list[int](), self.active
        while len(slots) < most and active and active[0] < below:
            bin = self.bins[active[0]]
            if not bin.live:
                active.pop(0)
                continue
            if bin.skips or bin.heap:
                break
            count, take = min(most - len(slots), bin.live), bin.run.popleft
            slots += [take() for _ in range(count)]
            bin.live -= count
        return slots

    def top(self) -> int:
        """The smallest priority that has a row; 256: none has."""
        active = self.active
        while active and not self.bins[active[0]].live:
            active.pop(0)
        return active[0] if active else NONE_DUE

    def remove(self, slot: int) -> None:
        """A row that stands here goes elsewhere; its body is still as it was when it came."""
        columns = self._columns
        bin = self.bins[columns.bodies[slot][PRIORITY]]
        bin.live -= 1
        if columns.states[slot] == RUN:
            bin.skips[slot] = bin.skips.get(slot, 0) + 1
        else:
            bin.gone.add(self._rank(slot) << 32 | slot)

    def oldest(self) -> int:
        """The earliest process date; `NEVER` where no row is due."""
        slots = [self._first_of(self.bins[priority]) for priority in self.active if self.bins[priority].live]
        return min((process_of(self._columns.bodies[slot]) for slot in slots), default=NEVER)

    def _first_of(self, bin: Bin) -> int:
        """The first row of a bin that has one."""
        run, heap, skips = bin.run, bin.heap, bin.skips
        while run and run[0] in skips:
            slot = run.popleft()
            if skips[slot] == 1:
                del skips[slot]
            else:
                skips[slot] -= 1
        while heap and heap[0] in bin.gone:
            bin.gone.remove(heapq.heappop(heap))
        if not heap:
            return run[0]
        return run[0] if run and self._rank(run[0]) < heap[0] >> 32 else heap[0] & _SLOT

    def _rank(self, slot: int) -> int:
        return process_of(self._columns.bodies[slot]) << 64 | self._columns.ids[slot]

    def _cut(self, bin: Bin) -> None:
        """Forget entries of rows that have gone: a key that is put a million times before it is claimed would leave as many."""
        run: deque[int] = deque()
        for slot in bin.run:
            left = bin.skips.get(slot, 0)
            if left:
                bin.skips[slot] = left - 1
            else:
                run.append(slot)
        bin.run, bin.skips = run, {}
        bin.heap, bin.gone = sorted(set(bin.heap) - bin.gone), set()
