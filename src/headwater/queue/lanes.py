"""Lanes: rows that share a lane are processed in their order, so many at once; lanes whose first rows have one priority come in turn.

Where a lane has one row at a time, a row that comes back keeps its place: until it is done, dead or gone, no other of it is given out.
"""

from __future__ import annotations

import heapq

from headwater.queue.body import PRIORITY, process_of
from headwater.queue.columns import RowColumns
from headwater.queue.due_rows import NONE_DUE, DueRows


class Lane:
    """The due rows of a lane, and how many of its rows are processed."""

    __slots__ = ("again", "later", "rows", "running", "turn")

    def __init__(self, columns: RowColumns, turn: int) -> None:
        self.rows, self.running, self.turn = DueRows(columns), 0, turn
        self.again: tuple[set[int], DueRows] = (set(), DueRows(columns))
        """The due rows that were claimed before, where the lane waits for them: the others have no turn."""
        self.later: set[int] = set()
        """The slots of rows that were claimed before, and are not due yet."""

    @property
    def empty(self) -> bool:
        return not (self.running or self.later or self.again[0]) and self.rows.top() == NONE_DUE


class Lanes:
    """The lanes that have a due or a processed row. Rows without a lane are one more that has its turn, without a limit."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self.by_name: dict[bytes, Lane] = {}
        self.concurrency = 1
        """How many rows of one lane may be processed at once. At 1, a lane waits for its rows that come back."""
        self._ready: list[tuple[int, int, bytes]] = []  # priority of the first row, turn, name; entries that have changed are passed over
        self._turn = 0
        self._others = 0  # the turn of the rows without a lane

    def use(self, concurrency: int) -> None:
        """Let so many rows of one lane be processed at once, from now on."""
        moves = (concurrency == 1) != (self.concurrency == 1)
        self.concurrency = concurrency
        for name, lane in list(self.by_name.items()):
            if moves:
                self._sort_out(lane)
            self._offer(name, lane)

    def name_of(self, slot: int) -> bytes:
        """The lane of a row, or nothing."""
        extras = self._columns.extras.get(slot)
        return b"" if extras is None else extras.lane

    def add(self, name: bytes, slot: int, priority: int, process: int) -> None:
        """A row of a lane has become due."""
        lane = self._lane(name)
        lane.later.discard(slot)
        self._add(lane, slot, priority, process)
        self._offer(name, lane)

    def remove(self, name: bytes, slot: int) -> None:
        """A due row of a lane goes elsewhere."""
        lane = self.by_name[name]
        again, rows = lane.again
        (rows if slot in again else lane.rows).remove(slot)
        again.discard(slot)
        self._offer(name, lane)

    def wait_for(self, name: bytes, slot: int) -> None:
        """A row of a lane was claimed before, and is not due yet."""
        lane = self._lane(name)
        lane.later.add(slot)
        self._offer(name, lane)

    def wait_no_longer(self, name: bytes, slot: int) -> None:
        """A row that is not due yet goes elsewhere."""
        lane = self.by_name.get(name)
        if lane is not None and slot in lane.later:
            lane.later.discard(slot)
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
            again, rows = lane.again
            slot = (rows if again else lane.rows).pop(below)
            again.discard(slot)
            return slot
        self._others = self._turn
        return others.pop(below)

    def oldest(self) -> int:
        """The earliest process date of their due rows, or `NEVER`."""
        return min(min(lane.rows.oldest(), lane.again[1].oldest()) for lane in self.by_name.values())

    def _lane(self, name: bytes) -> Lane:
        lane = self.by_name.get(name)
        if lane is None:
            self._turn += 1
            lane = self.by_name[name] = Lane(self._columns, self._turn)
        return lane

    def _add(self, lane: Lane, slot: int, priority: int, process: int) -> None:
        again, rows = lane.again
        if self.concurrency == 1 and slot in self._columns.tries:
            again.add(slot)
            rows.add(slot, priority, process)
        else:
            lane.rows.add(slot, priority, process)

    def _sort_out(self, lane: Lane) -> None:
        """Place the due rows of a lane anew: whether it waits for those that were claimed before has changed."""
        slots = [slot for due in (lane.rows, lane.again[1]) for slot in iter(due.pop, -1)]
        lane.rows, lane.again = DueRows(self._columns), (set(), DueRows(self._columns))
        for slot in slots:
            body = self._columns.bodies[slot]
            self._add(lane, slot, body[PRIORITY], process_of(body))

    def _top(self, lane: Lane) -> int:
        """The priority of the row that a lane may give; `NONE_DUE`: it has none, or waits for one to be due again."""
        if lane.again[0]:
            return lane.again[1].top()
        return NONE_DUE if self.concurrency == 1 and lane.later else lane.rows.top()

    def _stands(self, priority: int, turn: int, name: bytes) -> bool:
        lane = self.by_name.get(name)
        return lane is not None and lane.turn == turn and lane.running < self.concurrency and self._top(lane) == priority

    def _offer(self, name: bytes, lane: Lane) -> None:
        """Note that a lane may give its first row; forget a lane that has nothing left."""
        top = self._top(lane)
        if top < NONE_DUE:
            if lane.running < self.concurrency:
                heapq.heappush(self._ready, (top, lane.turn, name))
                if len(self._ready) > 64 + 2 * len(self.by_name):
                    self._ready = sorted({entry for entry in self._ready if self._stands(*entry)})
        elif lane.empty:
            del self.by_name[name]
