"""The order of waiting rows: future ones by date, due ones by priority, process date and insertion."""

from __future__ import annotations

from itertools import count

from headwater.queue.columns import FUTURE, NOWHERE, WAITING, RowColumns
from headwater.queue.date_heap import DateHeap
from headwater.queue.due_rows import DueRows
from headwater.queue.row import SLOW


class RowOrder:
    """Where every waiting row stands. A row is due once `promote` was called with its process date or a later one."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._due = DueRows(columns, count())
        self.future = DateHeap(self._is_future)
        self.due = self.later = 0
        """How many rows are due, and how many are not yet."""

    def add(self, slot: int, now: int) -> None:
        """A row waits."""
        columns = self._columns
        process = columns.processes[slot]
        if process > now:
            columns.places[slot] = FUTURE
            self.future.push(process, columns.ids[slot], slot)
            self.later += 1
        else:
            self._due.add(slot)
            self.due += 1

    def remove(self, slot: int) -> None:
        """A row no longer waits, or is about to change."""
        place = self._columns.places[slot]
        if place == FUTURE:
            self._columns.places[slot] = NOWHERE
            self.later -= 1
        elif place != NOWHERE:
            self._due.remove(slot)
            self.due -= 1

    def promote(self, now: int) -> int:
        """Make due what has become so; return how many rows."""
        future, promoted = self.future, 0
        while future.earliest <= now and (slot := future.pop(now)) >= 0:
            self._due.add(slot)
            promoted += 1
        self.later -= promoted
        self.due += promoted
        return promoted

    def first(self, *, slow: bool) -> int:
        """The slot of the row to claim next; -1: there is none. `slow`: whether rows of the slow band may be claimed."""
        return self._due.first() if slow else self._due.first(SLOW)

    def oldest_due(self) -> int:
        """The earliest process date of the due rows, or `NEVER`."""
        return self._due.oldest()

    def rebuild(self, now: int) -> None:
        """Place all waiting rows, of columns that were filled from a log."""
        columns = self._columns
        ranked = [(columns.processes[slot], columns.ids[slot], slot) for slot, state in enumerate(columns.states) if state == WAITING]
        ranked.sort()
        later = []
        for entry in ranked:
            if entry[0] > now:
                columns.places[entry[2]] = FUTURE
                later.append(entry)
            else:
                self._due.add(entry[2])
        self.due, self.later = len(ranked) - len(later), len(later)
        self.future.fill(later)

    def _is_future(self, date: int, id: int, slot: int) -> bool:
        columns = self._columns
        return columns.places[slot] == FUTURE and columns.ids[slot] == id and columns.processes[slot] == date
