"""What an open queue does around its calls: it commits their records, serves claims that wait, and does what has become due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from headwater.core.clock import Clock
from headwater.core.errors import Closed, HeadwaterError
from headwater.core.timers import Timers
from headwater.queue.answer import RecalledAnswer
from headwater.queue.carry import Carrier
from headwater.queue.date_heap import NEVER
from headwater.queue.decisions import Decisions
from headwater.queue.events import QueueEvents
from headwater.queue.queue_log import QueueLog
from headwater.queue.settings import QueueSettings
from headwater.queue.timers import QueueAlarm
from headwater.queue.values import ClaimedRow
from headwater.queue.waiting import Served, WaitingClaims

T = TypeVar("T")
_AT_ONCE = 10_000  # leases and expiries in one record


class QueueRuntime:
    """Belongs to the event loop of its queue."""

    def __init__(self, name: str, log: QueueLog, *, clock: Clock, timers: Timers) -> None:
        self.name, self.log, self.now_ms = name, log, clock.now_ms
        self.waiting, self.events = WaitingClaims(timers), QueueEvents()
        self._alarm = QueueAlarm(timers, self._ring)
        self._carrier = Carrier(self, timers)
        self._loop = asyncio.get_running_loop()
        self._serving = False  # a serve is scheduled
        self._orphans: list[ClaimedRow] = []  # claims that reach nobody, of a record that may be in the log
        log.on_settled, log.on_end = self._settled, self._ended
        self._settled()

    @property
    def decisions(self) -> Decisions:
        return self.log.decisions

    def use(self, settings: QueueSettings) -> None:
        """Decide by these settings from now on."""
        self.log.decisions.use(settings)
        self.wake()

    # -- calls -----------------------------------------------------------------------------------------------------------

    def begin(self, now: int) -> Decisions | None:
        """Begin the record of a call, after doing what is overdue. None: the call must wait, by `later`."""
        log, decisions = self.log, self.log.decisions
        if decisions.overdue(now) and not log.broken:
            self._advance(now)
        if log.broken:
            return None
        decisions.begin(now)
        return decisions

    def commit(self, answer: T, again: Callable[[], Awaitable[T]], *, recall: Callable[[T], object] | None = None) -> Awaitable[T]:
        """End the record of a call; return its answer, for when it is durable.

        `again`: makes the call anew, where it was not written. `recall`: is called with an answer that has not reached its caller.
        """
        value = self.log.decisions.end()
        if value is None:
            return self._unwritten(answer, again)
        future = self.log.append(value, answer)
        if future is None:
            return self.later(again)
        if self.waiting:
            self.wake()
        return future if recall is None else RecalledAnswer(future, answer, recall)

    async def later(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call once the queue can be written again. Errors: those of `QueueLog.ready`, and of the call."""
        await self.log.ready()
        return await call()

    async def _unwritten(self, answer: T, again: Callable[[], Awaitable[T]]) -> T:
        """The answer of a call that has changed nothing: what it has seen must be durable."""
        return answer if await self.log.tail() else await self.later(again)

    async def look(self, see: Callable[[Decisions], T]) -> T:
        """What `see` finds, with everything done that is overdue; given once it is durable."""
        while True:
            await self.log.ready()
            now = self.now_ms()
            if self.decisions.overdue(now):
                self._advance(now)
                if self.log.broken:
                    continue
            self.decisions.fold.order.promote(now)
            seen = see(self.decisions)
            if await self.log.tail():
                return seen

    # -- what comes by itself ---------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Serve the claims that wait at the loop's next turn: together, by one record."""
        if not self._serving and self.waiting:
            self._serving = True
            self._loop.call_soon(self.serve)

    def serve_first(self) -> None:
        """Serve the claims that wait, before a later one takes their rows."""
        if self._serving:
            self.serve()

    def serve(self) -> None:
        """Serve the claims that wait, where rows are due."""
        self._serving = False
        if not self.waiting or self.log.broken or self.decisions.fold.paused:
            return
        decisions = self.begin(self.now_ms())
        if decisions is None:
            return
        served = self.waiting.serve(decisions)
        value = decisions.end()
        future = None if value is None else self.log.append(value, None)
        if future is not None:
            for claim, _ in served:
                self.waiting.remove(claim)
            future.add_done_callback(partial(self._tell, served))

    def _tell(self, served: Served, written: asyncio.Future[None]) -> None:
        if written.exception() is not None:  # they wait on; what was claimed all the same is released once the log is folded anew
            self._orphans += [claimed for _, rows in served for claimed in rows]
            self.waiting.put_back([claim for claim, _ in served])
            return
        for claim, rows in served:
            if claim.future.done():  # its caller has given up
                self.give_back(rows)
            else:
                claim.future.set_result(rows)

    def give_back(self, rows: list[ClaimedRow]) -> None:
        """Release claims that reach nobody."""
        decisions = self.begin(self.now_ms()) if rows else None
        if decisions is not None:
            decisions.release([claimed.token for claimed in rows], None)
            self._write(decisions)
            self.wake()

    def _advance(self, now: int) -> None:
        """Write what has happened by itself: leases that have ended, rows that have expired."""
        decisions, more = self.log.decisions, True
        while more and not self.log.broken:
            decisions.begin(now)
            more = decisions.advance(_AT_ONCE)
            self._write(decisions)
        self.tell_deaths()
        self.wake()

    def _write(self, decisions: Decisions) -> None:
        """End a record for whose answer nobody waits."""
        value = decisions.end()
        future = None if value is None else self.log.append(value, None)
        if future is not None:
            future.add_done_callback(_looked_at)

    def tell_deaths(self) -> None:
        """Tell listeners of the rows that were given up."""
        if self.decisions.died:
            self.events.died(self.decisions)
            self.decisions.died.clear()

    def _ring(self) -> None:
        if self.log.broken:
            return
        now = self.now_ms()
        if self.decisions.overdue(now):
            self._advance(now)
        due = 0 if self.log.broken else self.decisions.fold.order.promote(now)
        if due:
            self.events.due(now, self.decisions.fold.order.due)
        self.wake()
        self.set_alarm()

    def set_alarm(self) -> None:
        """Ring at the next date: of a lease or an expiry; and of a due row, where somebody waits for it."""
        if self.log.broken:
            return
        fold = self.decisions.fold
        date = min(fold.claims.next_end() + 1, fold.expiries.next_date())
        if (self.waiting or self.events) and not fold.paused:
            date = min(date, fold.order.future.next_date())
            if self.decisions.limited and fold.order.due:
                date = min(date, self.decisions.next_allowed())
        self._alarm.set(NEVER if date >= NEVER else date)

    # -- after each commit, and at the end -----------------------------------------------------------------------------------

    def _settled(self) -> None:
        """Once for all calls that were committed together; and when the log was folded anew, before any other call."""
        if self._orphans:
            orphans, self._orphans = self._orphans, []
            self.give_back(orphans)
        if self.events:
            self.events.due(self.now_ms(), self.decisions.fold.order.due)
        self.set_alarm()
        self._carrier.look()
        self.wake()

    def _ended(self, error: HeadwaterError) -> None:
        self._alarm.stop()
        self.waiting.fail(error)
        self.events.close()

    async def mark(self) -> None:
        await self._carrier.mark()

    async def aclose(self) -> None:
        await self._carrier.stop()
        if not self.log.broken:
            await self.log.tail()
        error = Closed(f"The queue {self.name} is closed.", hint="Open it again.")
        self.log.close(error)
        self._ended(error)


def _looked_at(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
