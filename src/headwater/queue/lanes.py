"""Lanes: rows that share a lane are processed in their order, so many at once; lanes whose first rows have one priority come in turn."""

from __future__ import annotations

import heapq

from headwater.queue.columns import RowColumns
from headwater.queue.due_rows import NONE_DUE, DueRows


class Lane:
    """The due rows of a lane, and how many of its rows are processed."""

    __slots__ = ("rows", "running", "turn")

    def __init__(self, columns: RowColumns, turn: int) -> None:
        self.rows, self.running, self.turn = DueRows(columns), 0, turn


class Lanes:
    """The lanes that have a due or a processed row. Rows without a lane are one more that has its turn, without a limit."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self.by_name: dict[bytes, Lane] = {}
        self.concurrency = 1
        """How many rows of one lane may be processed at once."""
        self._ready: list[tuple[int, int, bytes]] = []  # priority of the first row, turn, name; entries that have changed are passed over
        self._turn = 0
        self._others = 0  # the turn of the rows without a lane

    def use(self, concurrency: int) -> None:
        """Let so many rows of one lane be processed at once, from now on."""
        self.concurrency = concurrency
        for name, lane in list(self.by_name.items()):
            self._offer(name, lane)

    def name_of(self, slot: int) -> bytes:
        """The lane of a row, or nothing."""
        extras = self._columns.extras.get(slot)
        return b"" if extras is None else extras.lane

    def add(self, name: bytes, slot: int, priority: int, process: int) -> None:
        """A row of a lane has become due."""
        lane = self._lane(name)
        lane.rows.add(slot, priority, process)
        self._offer(name, lane)

    def remove(self, name: bytes, slot: int) -> None:
        """A due row of a lane goes elsewhere."""
        lane = self.by_name[name]
        lane.rows.remove(slot)
        self._offer(name, lane)

    def started(self, name: bytes) -> None:
        """A row of a lane is processed."""
        lane = self._lane(name)
        lane.running += 1
        self._offer(name, lane)

    def ended(self, name: bytes) -> None:
        """It no longer is."""
        lane = self.by_name[name]
        lane.running -= 1
        self._offer(name, lane)

    def pop(self, others: DueRows, below: int) -> int:
        """Take the first row of the lane whose turn it is, or of `others`; -1: no lane may give one of a priority below `below`."""
        ready = self._ready
        while ready and not self._stands(*ready[0]):
            heapq.heappop(ready)
        top, self._turn = others.top(), self._turn + 1
        if ready and ready[0][:2] < (top, self._others):
            priority, _, name = ready[0]
            if priority >= below:
                return -1
            lane = self.by_name[name]
            lane.turn = self._turn
            return lane.rows.pop(below)
        self._others = self._turn
        return others.pop(below)

    def oldest(self) -> int:
        """The earliest process date of their due rows, or `NEVER`."""
        return min(lane.rows.oldest() for lane in self.by_name.values())

    def _lane(self, name: bytes) -> Lane:
        lane = self.by_name.get(name)
        if lane is None:
            self._turn += 1
            lane = self.by_name[name] = Lane(self._columns, self._turn)
        return lane

    def _stands(self, priority: int, turn: int, name: bytes) -> bool:
        lane = self.by_name.get(name)
        return lane is not None and lane.turn == turn and lane.running < self.concurrency and lane.rows.top() == priority

    def _offer(self, name: bytes, lane: Lane) -> None:
        """Note that a lane may give its first row; forget a lane that has nothing left."""
        top = lane.rows.top()
        if top < NONE_DUE:
            if lane.running < self.concurrency:
                heapq.heappush(self._ready, (top, lane.turn, name))
                if len(self._ready) > 64 + 2 * len(self.by_name):
                    self._ready = sorted({entry for entry in self._ready if self._stands(*entry)})
        elif not lane.running:
            del self.by_name[name]
