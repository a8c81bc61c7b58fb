"""Carry-forward: writes the rows with the oldest homes again, so that the log before them can go. Beside the work, and in slices.

A row that nobody claims would keep every record behind its home. So when the log has many more records than rows, or bytes, the oldest
rows are written to its end, as they are. Then everything before the first home that is left is marked as flushed.

At the end of a period less is enough: where most records are of rows that are gone, the others move on, so that its files can go. A row
thus is written again for each record, or more, that this frees, and rows that fill their files stay where they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from headwater.core.errors import HeadwaterError
from headwater.core.period import period_end
from headwater.core.timers import Timer, Timers
from headwater.queue.after_check import AFTER_SIZE
from headwater.queue.body import FLAGS, ON_LOG, place_in
from headwater.queue.columns import DEAD, extras_size
from headwater.queue.data_place import DataPlace
from headwater.queue.data_reader import held
from headwater.queue.death import death_size
from headwater.queue.decisions import NO_DATA, Decisions
from headwater.queue.fold import QueueFold
from headwater.queue.records import MOST_ROWS, STATE_SIZE

if TYPE_CHECKING:
    from headwater.queue.runtime import QueueRuntime

_logger = logging.getLogger("headwater.queue")
SPARE_RECORDS = 200_000
SPARE_BYTES = 64 << 20
_ROWS = 500  # that are carried by one record
_LOOKED_UP = 50_000  # rows that are found at once: that takes as long as looking at all
_BYTES = 512 << 10  # of rows that are carried by one record
_CLAIM = 64  # bytes of a claim, where its row is written whole: about
_MARK_AFTER = 10_000  # milliseconds from the first record that is not needed to the mark
_MARK_AT = 50_000  # records that are not needed, at which nobody waits for that


class Carrier:
    """Keeps the log of a queue short."""

    def __init__(self, runtime: QueueRuntime, timers: Timers) -> None:
        self._runtime, self._timers = runtime, timers
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._rests_until = 0  # a row could not be read: each commit would try again
        self._least = (0, 0)  # twice the records and bytes of a log that was as short as it can be, and seemed too long
        self._period: Timer | None = None  # rings when the period ends, where that is worth it
        self._over = False  # it has ended, and nothing was done about it yet
        self._marked = runtime.decisions.fold.homes.first

    def look(self) -> None:
        """See whether there is something to do. Called after each commit."""
        fold = self._runtime.decisions.fold
        homes = fold.homes
        unneeded = homes.pass_unneeded() - self._marked
        if self._period is None and too_long(fold, spare=False):
            self._await_period()
        if self._task is not None:
            return
        rests = self._rests_until and self._runtime.now_ms() < self._rests_until
        if unneeded >= _MARK_AT or (not rests and self._may_gain(fold, spare=True)):
            self._start()
        elif unneeded > 0 and self._timer is None:
            self._timer = self._timers.at(self._runtime.now_ms() + _MARK_AFTER, self._start)

    def _await_period(self) -> None:
        period, now = self._runtime.decisions.settings.period.value, self._runtime.now_ms()
        if period:
            self._period = self._timers.at(period_end(period, now), self._period_over)

    def _period_over(self) -> None:
        self._period, self._over = None, True
        self._start()

    async def stop(self) -> None:
        for timer in (self._timer, self._period):
            if timer is not None:
                timer.cancel()
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
            await self._shorten(spare=True)
            while self._over:
                self._over = False
                await self._shorten(spare=False)
        except HeadwaterError:
            return  # the queue folds anew, or is at its end; another commit looks again
        finally:
            self._task = None

    async def _shorten(self, *, spare: bool) -> None:
        """Carry what the log holds, each thing once, until the log is short enough; or until that makes it no shorter: then it is as short
        as it can be, and only seems too long."""
        log = self._runtime.log
        await self.mark()
        while not log.broken and self._may_gain(log.decisions.fold, spare):
            fold = log.decisions.fold
            begun, records, size = fold.sequence, fold.homes.records, fold.homes.bytes
            while await self._carry_oldest(spare, begun):
                await self.mark()
            await self.mark()
            homes = log.decisions.fold.homes
            if homes.records >= records and homes.bytes >= size:
                self._least = (2 * homes.records, 2 * homes.bytes)
                break

    def _may_gain(self, fold: QueueFold, spare: bool) -> bool:
        """Whether the log is too long, and far longer than when it was found to be as short as it can be."""
        if spare:
            records, size = self._least
            if fold.homes.records <= records + SPARE_RECORDS and fold.homes.bytes <= size + SPARE_BYTES:  # mostly it is so
                return False
        return too_long(fold, spare=spare)

    async def _carry_oldest(self, spare: bool, begun: int) -> bool:
        """Carry the oldest rows, slice by slice, until the log is short enough. Leaves out rows whose homes have changed meanwhile.

        `begun`: what has its home behind this sequence stays. False: nothing is left that could be carried.
        """
        fold = self._runtime.decisions.fold
        oldest = [(slot, home) for slot in oldest_rows(fold, _LOOKED_UP) if (home := fold.oldest_home(slot)) <= begun]
        at, more = 0, True
        while more:
            some, at = _slice(fold, oldest, at)
            before, more = oldest[at - 1][1] if oldest else begun, at < len(oldest)
            data = await self._read([slot for slot, _ in some])
            decisions = self._begin(fold)
            if decisions is None:
                return False
            slots = [slot for slot, home in some if _is_at(fold, slot, home)]
            self._runtime.decide(decisions, partial(Decisions.carry, slots=slots, most_bytes=_BYTES, before=before, data=data))
            await self._runtime.commit(None, _nothing)
            await self._carry_rest(fold, before, spare)
            if not too_long(fold, spare=spare):
                return False
        return bool(oldest) and not _is_at(fold, *oldest[0])

    def _begin(self, fold: QueueFold) -> Decisions | None:
        """Begin a record of a fold. None: there is another one by now, or the log cannot be written."""
        return None if self._runtime.decisions.fold is not fold else self._runtime.begin(self._runtime.now_ms())

    async def _read(self, slots: list[int]) -> Mapping[DataPlace, bytes]:
        """The data of rows that are on the log alone. Errors: where some cannot be read. Nothing behind their record could go, either."""
        fold = self._runtime.decisions.fold
        bodies = [fold.columns.bodies[slot] for slot in slots]
        places = [place_in(body) for body in bodies if body[FLAGS] & ON_LOG]
        if not places:
            return NO_DATA
        with held(fold, places):
            if not await self._runtime.log.tail():  # their records may be under way
                return NO_DATA
            data_by_place = await self._runtime.reader.read(places)
        for data in data_by_place.values():
            if isinstance(data, HeadwaterError):
                self._rests_until = self._runtime.now_ms() + _MARK_AFTER
                _logger.warning("The log of the queue %s cannot be shortened: %s", self._runtime.name, data)
                raise data
        return cast(Mapping[DataPlace, bytes], data_by_place)

    async def _carry_rest(self, fold: QueueFold, before: int, spare: bool) -> None:
        """Carry what is no row and has its home up to a sequence, slice by slice: a pause, answers, results and keys of done rows."""
        while too_long(fold, spare=spare):
            others = fold.answers.oldest_home <= before or 0 < fold.paused <= before
            if not others and fold.finished.oldest_home > before:
                return
            decisions = self._begin(fold)
            if decisions is None:
                return
            if others:
                self._runtime.decide(decisions, partial(Decisions.carry, slots=(), most_bytes=_BYTES, before=before))
            else:
                self._runtime.decide(decisions, partial(Decisions.carry_finished, most_bytes=_BYTES, before=before))
            await self._runtime.commit(None, _nothing)

    async def mark(self) -> None:
        """Tell the region which records are flushed."""
        log = self._runtime.log
        self._runtime.turn.end()  # its record comes before the mark: else what it has ended would be forgotten before that is written
        fold = log.decisions.fold
        fold.starts.forget(self._runtime.now_ms())
        first = min(fold.homes.pass_unneeded(), fold.starts.first)  # the rate counts claims of rows that are gone, also after a restart
        if fold.starts.first < fold.homes.first and self._timer is None:
            self._timer = self._timers.at(fold.starts.ends + _MARK_AFTER, self._start)
        if log.broken or first <= max(self._marked, 1):
            return
        # A record under way that fails would leave rows in the records before: their homes are there then, and must not be forgotten.
        if await log.tail():
            await log.region.mark_delete_up_to(log.table, first - 1)
            self._marked = max(self._marked, first)


def too_long(fold: QueueFold, *, spare: bool = True) -> bool:
    """Whether the log has more than twice what its rows need, and some; without `spare`, more than two records for a row.

    The bytes do not count without it: small rows need more than twice their own, wherever they are.
    """
    homes = fold.homes
    homes.pass_unneeded()
    kept = len(fold) + len(fold.finished) + len(fold.answers) + bool(fold.paused)  # all that has a home
    if not spare:
        return homes.records > 2 * kept
    return homes.records > 2 * kept + SPARE_RECORDS or homes.bytes > 2 * kept_bytes(fold) + SPARE_BYTES


def kept_bytes(fold: QueueFold) -> int:
    """About how many bytes all has that has a home, where it is written whole."""
    columns = fold.columns
    rows = fold.live_bytes + fold.data.bytes + STATE_SIZE * len(fold) + columns.extras.bytes + AFTER_SIZE * columns.waits.edges
    return rows + fold.deaths.bytes + _CLAIM * len(fold.claims) + fold.finished.size + fold.answers.size


def oldest_rows(fold: QueueFold, most: int) -> list[int]:
    """The slots of rows with the oldest homes, the oldest first: up to `most`."""
    columns = fold.columns
    slots = np.flatnonzero(np.frombuffer(columns.states, np.uint8))
    homes = np.frombuffer(columns.ids, np.int64)[slots] // MOST_ROWS
    if columns.homes:
        written = np.frombuffer(columns.homes, np.int64)[slots]
        homes = np.where(written, written, homes)
    if fold.data.homes:
        needed = np.fromiter(fold.data.homes.keys(), np.int64, len(fold.data.homes))
        homes[np.searchsorted(slots, needed)] = np.fromiter(fold.data.homes.values(), np.int64, len(fold.data.homes))
    if len(slots) > most:
        places = np.argpartition(homes, most)[:most]
        slots, homes = slots[places], homes[places]
    oldest: list[int] = slots[np.argsort(homes, kind="stable")].tolist()
    return oldest


def _slice(fold: QueueFold, oldest: list[tuple[int, int]], at: int) -> tuple[list[tuple[int, int]], int]:
    """Rows from a place on that one record can carry, and the place behind them. Leaves out those whose homes have changed."""
    some: list[tuple[int, int]] = []
    size, at_most = 0, min(at + _ROWS, len(oldest))
    while at < at_most:
        slot, home = oldest[at]
        if _is_at(fold, slot, home):
            size += _size(fold, slot)
            if some and size > _BYTES:
                break
            some.append((slot, home))
        at += 1
    return some, at


def _size(fold: QueueFold, slot: int) -> int:
    """About how many bytes a record has of a row that it holds whole."""
    columns = fold.columns
    body, extras, after = columns.bodies[slot], columns.extras.get(slot), columns.waits.after.get(slot, ())
    size = len(body) + STATE_SIZE + AFTER_SIZE * len(after) + (extras_size(extras) if extras is not None else 0)
    if columns.states[slot] == DEAD:
        size += death_size(fold.deaths[columns.ids[slot]])
    return size + (place_in(body).length if body[FLAGS] & ON_LOG else 0)


def _is_at(fold: QueueFold, slot: int, home: int) -> bool:
    return bool(fold.columns.states[slot]) and fold.oldest_home(slot) == home


async def _nothing() -> None: ...
