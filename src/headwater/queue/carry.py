"""Carry-forward: writes the rows with the oldest homes again, so that the log before them can go. Beside the work, and in slices.

A row that nobody claims would keep every record behind its home. So when the log has many more records than rows, or bytes, the oldest
rows are written to its end, as they are. Then everything before the first home that is left is marked as flushed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np

from headwater.core.errors import HeadwaterError
from headwater.core.timers import Timer, Timers
from headwater.queue.fold import QueueFold
from headwater.queue.records import MOST_ROWS

if TYPE_CHECKING:
    from headwater.queue.runtime import QueueRuntime

SPARE_RECORDS = 200_000
SPARE_BYTES = 64 << 20
_ROWS = 500  # that are carried by one record
_LOOKED_UP = 50_000  # rows that are found at once: that takes as long as looking at all
_BYTES = 512 << 10  # of rows that are carried by one record
_MARK_AFTER = 10_000  # milliseconds from the first record that is not needed to the mark
_MARK_AT = 50_000  # records that are not needed, at which nobody waits for that


class Carrier:
    """Keeps the log of a queue short."""

    def __init__(self, runtime: QueueRuntime, timers: Timers) -> None:
        self._runtime, self._timers = runtime, timers
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._marked = runtime.decisions.fold.homes.first

    def look(self) -> None:
        """See whether there is something to do. Called after each commit."""
        homes = self._runtime.decisions.fold.homes
        unneeded = homes.pass_unneeded() - self._marked
        if self._task is not None:
            return
        if unneeded >= _MARK_AT or too_long(self._runtime.decisions.fold):
            self._start()
        elif unneeded > 0 and self._timer is None:
            self._timer = self._timers.at(self._runtime.now_ms() + _MARK_AFTER, self._start)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            while not self._runtime.log.broken and too_long(self._runtime.decisions.fold):
                first = self._runtime.decisions.fold.homes.first
                await self._carry_oldest()
                if self._runtime.decisions.fold.homes.pass_unneeded() <= first:
                    break
            await self.mark()
        except HeadwaterError:
            return  # the queue folds anew, or is at its end; another commit looks again
        finally:
            self._task = None

    async def _carry_oldest(self) -> None:
        """Carry the oldest rows, slice by slice, until the log is short enough. Leaves out rows whose homes have changed meanwhile."""
        fold = self._runtime.decisions.fold
        oldest = [(slot, fold.home(slot)) for slot in oldest_rows(fold, _LOOKED_UP)]
        for at in range(0, max(len(oldest), 1), _ROWS):
            decisions = self._runtime.begin(self._runtime.now_ms())
            if decisions is None or decisions.fold is not fold:
                return
            some = [slot for slot, home in oldest[at : at + _ROWS] if fold.columns.states[slot] and fold.home(slot) == home]
            decisions.carry(some, _BYTES, before=oldest[min(at + _ROWS, len(oldest)) - 1][1] if oldest else decisions.fold.sequence)
            await self._runtime.commit(None, _nothing)
            if not too_long(decisions.fold):
                return

    async def mark(self) -> None:
        """Tell the region which records are flushed."""
        log = self._runtime.log
        first = log.decisions.fold.homes.pass_unneeded()
        if not log.broken and first > max(self._marked, 1):
            await log.region.mark_delete_up_to(log.table, first - 1)
            self._marked = first


def too_long(fold: QueueFold) -> bool:
    """Whether the log has more than twice what its rows need, and some."""
    homes = fold.homes
    homes.pass_unneeded()
    return homes.records > 2 * len(fold) + SPARE_RECORDS or homes.bytes > 2 * fold.live_bytes + SPARE_BYTES


def oldest_rows(fold: QueueFold, most: int) -> list[int]:
    """The slots of rows with the oldest homes, the oldest first: up to `most`."""
    columns = fold.columns
    slots = np.flatnonzero(np.frombuffer(columns.states, np.uint8))
    homes = np.frombuffer(columns.ids, np.int64)[slots] // MOST_ROWS
    if columns.homes:
        written = np.fromiter(columns.homes.keys(), np.int64, len(columns.homes))
        homes[np.searchsorted(slots, written)] = np.fromiter(columns.homes.values(), np.int64, len(columns.homes))
    if len(slots) > most:
        first = np.argpartition(homes, most)[:most]
        slots, homes = slots[first], homes[first]
    found: list[int] = slots[np.argsort(homes, kind="stable")].tolist()
    return found


async def _nothing() -> None: ...
