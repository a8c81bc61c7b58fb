"""The order of waiting rows: future ones by date, due ones by priority, process date and insertion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from headwater.queue.body import PRIORITY, process_of, processes_of
from headwater.queue.columns import BLOCKED, FUTURE, RUN, RowColumns
from headwater.queue.date_heap import DateHeap
from headwater.queue.due_rows import NONE_DUE, DueRows
from headwater.queue.lanes import Lanes
from headwater.queue.row import SLOW

_PART = 10_000  # rows that are looked at at once


class RowOrder:
    """Where every waiting row stands. A row is due once `promote` was called with its process date or a later one."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._due = DueRows(columns)
        self.lanes = Lanes(columns)
        self.future = DateHeap(self._is_future)
        self.due = self.later = self.blocked = 0
        """How many rows are due, how many are not yet, and how many wait for other rows, whatever their date."""

    def add(self, slot: int, priority: int, process: int, now: int) -> None:
        """A row waits."""
        if self._columns.waits.after and slot in self._columns.waits.after:
            self._columns.states[slot] = BLOCKED
            self.blocked += 1
        elif process > now:
            self._columns.states[slot] = FUTURE
            self.future.push(process, self._columns.ids[slot], slot)
            self.later += 1
            if self._columns.tries:
                self._wait_for(slot)
        else:
            self._add_due(slot, priority, process)
            self.due += 1

    def _add_due(self, slot: int, priority: int, process: int) -> None:
        lane = self.lanes.name_of(slot) if self._columns.extras else b""
        if lane:
            self.lanes.add(lane, slot, priority, process)
        else:
            self._due.add(slot, priority, process)

    def _wait_for(self, slot: int) -> None:
        """A row is not due yet: where it was claimed before, its lane may wait for it."""
        if slot in self._columns.tries and (lane := self.lanes.name_of(slot)):
            self.lanes.wait_for(lane, slot)

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
            if lane := self.lanes.name_of(slot) if self._columns.extras else b"":
                self.lanes.wait_no_longer(lane, slot)
        elif self._columns.states[slot] == BLOCKED:
            self.blocked -= 1
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
        active, bins = self._due.active, self._due.bins
        if active and active[0] < SLOW and (bin := bins[active[0]]).live and not (bin.skips or bin.heap):  # so it is mostly
            bin.live -= 1
            self.due -= 1
            return bin.run.popleft()
        slot = self._due.pop(SLOW)
        if slot >= 0:
            self.due -= 1
        return slot

    def pop_many(self, most: int) -> list[int]:
        """`pop_quick` up to `most` times."""
        slots = self._due.pop_many(most, SLOW)
        self.due -= len(slots)
        return slots

    def oldest_due(self) -> int:
        """The earliest process date of the due rows, or `NEVER`."""
        return min(self._due.oldest(), self.lanes.oldest()) if self.lanes.by_name else self._due.oldest()

    def rebuild(self, slots: Iterable[int], now: int) -> None:
        """Place the waiting rows among `slots`, of columns that were filled from a log. There they all are in the state `RUN`."""
        columns = self._columns
        states, bodies, waits = columns.states, columns.bodies, columns.waits.after
        run_slots = [slot for slot in slots if states[slot] == RUN]
        if waits:
            for slot in run_slots:
                if slot in waits:
                    states[slot] = BLOCKED
                    self.blocked += 1
            run_slots = [slot for slot in run_slots if states[slot] == RUN]
        dates = np.frombuffer(processes_of(bodies, run_slots), ">i8")
        ids = np.frombuffer(columns.ids, np.int64)[run_slots]
        order = np.lexsort((ids, dates))
        if np.any(order[1:] < order[:-1]):
            run_slots, dates, ids = _in_order(run_slots, order), dates[order], ids[order]
        due, later = run_slots[: (split := int(np.searchsorted(dates, now, side="right")))], np.array(run_slots[split:], np.int64)
        np.frombuffer(states, np.uint8)[later] = FUTURE
        laned = [slot for slot in due if self.lanes.name_of(slot)] if columns.extras else []
        self._due.fill([slot for slot in due if not self.lanes.name_of(slot)] if laned else due)
        for slot in columns.tries.keys() & set(later.tolist()) if columns.extras else ():
            self._wait_for(slot)
        for slot in laned:
            self._add_due(slot, bodies[slot][PRIORITY], process_of(bodies[slot]))
        self.future.fill(dates[split:].copy(), ids[split:].copy(), later)  # copies: the whole columns need not stay
        self.due, self.later = len(due), len(later)

    def _is_future(self, date: int, id: int, slot: int) -> bool:
        columns = self._columns
        return columns.states[slot] == FUTURE and columns.ids[slot] == id and process_of(columns.bodies[slot]) == date


def _in_order(slots: list[int], places: np.ndarray) -> list[int]:
    """The slots of these places. The same objects, and no million of others beside them: what Python has used, it seldom gives back."""
    return [slots[place] for part in np.array_split(places, 1 + len(places) // _PART) for place in part.tolist()]


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
