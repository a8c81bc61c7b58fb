"""The order of waiting rows: future ones by date, due ones by priority, process date and insertion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headwater.queue.body import PRIORITY, process_of
from headwater.queue.columns import FUTURE, RUN, RowColumns
from headwater.queue.date_heap import DateHeap
from headwater.queue.due_rows import NONE_DUE, DueRows
from headwater.queue.lanes import Lanes
from headwater.queue.row import SLOW


class RowOrder:
    """Where every waiting row stands. A row is due once `promote` was called with its process date or a later one."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._due = DueRows(columns)
        self.lanes = Lanes(columns)
        self.future = DateHeap(self._is_future)
        self.due = self.later = 0
        """How many rows are due, and how many are not yet."""

    def add(self, slot: int, priority: int, process: int, now: int) -> None:
        """A row waits."""
        if process > now:
            self._columns.states[slot] = FUTURE
            self.future.push(process, self._columns.ids[slot], slot)
            self.later += 1
        else:
            self._add_due(slot, priority, process)
            self.due += 1

    def _add_due(self, slot: int, priority: int, process: int) -> None:
        lane = self.lanes.name_of(slot) if self._columns.extras else b""
        if lane:
            self.lanes.add(lane, slot, priority, process)
        else:
            self._due.add(slot, priority, process)

    def add_new(self, slot: int, id: int, priority: int, process: int) -> None:
        """A row that is due, has the largest id, and no lane, waits."""
        self.due += 1
        bin = self._due.bins.get(priority)
        if bin is not None and bin.live and bin.run and process >= bin.last_date:
            bin.run.append(slot)
            bin.last_date, bin.last_id = process, id
            bin.live += 1
            self._columns.states[slot] = RUN
        else:
            self._due.add(slot, priority, process)

    def remove(self, slot: int) -> None:
        """A waiting row goes, or is about to change."""
        if self._columns.states[slot] == FUTURE:
            self.later -= 1
        else:
            lane = self.lanes.name_of(slot) if self._columns.extras else b""
            if lane:
                self.lanes.remove(lane, slot)
            else:
                self._due.remove(slot)
            self.due -= 1

    def started(self, slot: int) -> None:
        """A row that was taken is processed."""
        if lane := self.lanes.name_of(slot):
            self.lanes.started(lane)

    def ended(self, slot: int) -> None:
        """A row is no longer processed."""
        if lane := self.lanes.name_of(slot):
            self.lanes.ended(lane)

    def promote(self, now: int) -> int:
        """Make due what has become so; return how many rows."""
        future, promoted = self.future, 0
        while future.earliest <= now and (slot := future.pop(now)) >= 0:
            body = self._columns.bodies[slot]
            self._add_due(slot, body[PRIORITY], process_of(body))
            promoted += 1
        self.later -= promoted
        self.due += promoted
        return promoted

    def pop(self, *, slow: bool) -> int:
        """Take the row to claim next; return its slot. -1: there is none. `slow`: whether rows of the slow band may be claimed.

        A row whose lane is full is passed over, and keeps no slow row back.
        """
        below = NONE_DUE if slow else SLOW
        slot = self.lanes.pop(self._due, below) if self.lanes.by_name else self._due.pop(below)
        if slot >= 0:
            self.due -= 1
        return slot

    def pop_quick(self) -> int:
        """`pop` of a row below the slow band, where no row has a lane."""
        slot = self._due.pop(SLOW)
        if slot >= 0:
            self.due -= 1
        return slot

    def oldest_due(self) -> int:
        """The earliest process date of the due rows, or `NEVER`."""
        return min(self._due.oldest(), self.lanes.oldest()) if self.lanes.by_name else self._due.oldest()

    def rebuild(self, slots: Iterable[int], now: int) -> None:
        """Place the waiting rows among `slots`, of columns that were filled from a log. There they all are in the state `RUN`."""
        columns = self._columns
        states, bodies, ids = columns.states, columns.bodies, columns.ids
        waiting = [slot for slot in slots if states[slot] == RUN]
        later = [slot for slot in waiting if process_of(bodies[slot]) > now]
        for slot in later:
            states[slot] = FUTURE
        due = [slot for slot in waiting if states[slot] == RUN] if later else waiting
        due.sort(key=lambda slot: process_of(bodies[slot]) << 64 | ids[slot])
        laned = [slot for slot in due if self.lanes.name_of(slot)] if columns.extras else []
        self._due.fill([slot for slot in due if not self.lanes.name_of(slot)] if laned else due)
        for slot in laned:
            self._add_due(slot, bodies[slot][PRIORITY], process_of(bodies[slot]))
        self.future.fill([(process_of(bodies[slot]), ids[slot], slot) for slot in later])
        self.due, self.later = len(due), len(later)

    def _is_future(self, date: int, id: int, slot: int) -> bool:
        columns = self._columns
        return columns.states[slot] == FUTURE and columns.ids[slot] == id and process_of(columns.bodies[slot]) == date


class PlacingOrder(Protocol):
    """Is told which rows wait, and which are processed."""

    def add(self, slot: int, priority: int, process: int, now: int) -> None: ...
    def remove(self, slot: int) -> None: ...
    def started(self, slot: int) -> None: ...
    def ended(self, slot: int) -> None: ...


class NoOrder:
    """While a log is replayed: the order is made at its end."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns

    def add(self, slot: int, priority: int, process: int, now: int) -> None:
        self._columns.states[slot] = RUN

    def remove(self, slot: int) -> None: ...
    def started(self, slot: int) -> None: ...
    def ended(self, slot: int) -> None: ...
