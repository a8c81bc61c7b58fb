"""What an open queue does around its calls: it commits their records, serves claims that wait, and does what has become due."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

from headwater.core.clock import Clock
from headwater.core.errors import Closed, HeadwaterError, OffsetGone, OutcomeUnknown
from headwater.core.timers import Timers
from headwater.queue.answer import KnownAnswer
from headwater.queue.carry import Carrier
from headwater.queue.claim_reader import ClaimReader, lacks_data
from headwater.queue.count_events import CountEvents, counts_told
from headwater.queue.data_reader import DataReader, held, places_of
from headwater.queue.date_heap import NEVER
from headwater.queue.dead_notices import DeadNotices, Post
from headwater.queue.decisions import Decisions
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.events import QueueEvents, deaths_behind
from headwater.queue.queue_log import QueueLog
from headwater.queue.results import ResultWaits
from headwater.queue.row import Row
from headwater.queue.statistics import statistics_of
from headwater.queue.timers import QueueAlarm
from headwater.queue.turn_record import TurnRecord
from headwater.queue.values import ClaimedRow, QueueEvent, QueueStatistics, Rates
from headwater.queue.waiting import Served, WaitingClaims

T = TypeVar("T")
_AT_ONCE = 10_000  # leases and expiries in one record
_FORGET_AFTER = 10_000  # milliseconds from the date of a result, key or answer to its end in a queue that is idle


class QueueRuntime:
    """Belongs to the event loop of its queue."""

    def __init__(self, name: str, log: QueueLog, *, clock: Clock, timers: Timers, post: Post | None = None) -> None:
        """`post`: tells the address of `on_dead` of dead rows; None: nobody is told."""
        self.name, self.log, self.now_ms = name, log, clock.now_ms
        self.waiting, self.events, self.results = WaitingClaims(clock), QueueEvents(self._reset), ResultWaits(timers)
        self._counts = CountEvents(self.events, timers, clock.now_ms, self.statistics, position=lambda: log.durable)
        self._alarm = QueueAlarm(timers, self._ring)
        self.reader = DataReader(log.region, log.table)
        self.claims = ClaimReader(self, self.reader)
        self._carrier = Carrier(self, timers)
        self._notices = None if post is None else DeadNotices(self, timers, post)
        self._loop = asyncio.get_running_loop()
        self._serving = False  # a serve is scheduled
        self._begun: list[asyncio.Future[None]] = []  # records of the call that is being made, which needs several
        self.turn = TurnRecord(log, self.waiting, wake=self.wake, give_back=self.give_back)
        log.decisions.on_full, log.decisions.before, log.on_break = self._next_record, self.turn.end, self.turn.end
        self._fold = log.decisions.fold
        log.on_settled, log.on_end = self._settled, self._ended
        log.decisions.watched = self.results.by_row
        self._settled()

    @property
    def decisions(self) -> Decisions:
        return self.log.decisions

    def use(self, settings: EffectiveSettings) -> None:
        """Decide by these settings from now on."""
        self.turn.end()
        self.log.decisions.use(settings)
        self.wake()
        if self._notices is not None:
            self._notices.look()

    # -- calls -----------------------------------------------------------------------------------------------------------

    def begin(self, now: int) -> Decisions | None:
        """Begin the record of a call, after doing what is overdue. None: the call must wait, by `later`."""
        log, decisions = self.log, self.log.decisions
        if decisions.overdue(now) and not log.broken:
            self._advance(now)
        if log.broken:
            return None
        self._begun = []
        decisions.begin(now)
        return decisions

    def decide(self, decisions: Decisions, decide: Callable[[Decisions], T]) -> T:
        """Make changes of the record that was begun. Errors: those of `decide`; then the record has ended, and nothing has changed.

        A refusal comes before any change. Whatever else raises may have changed something: the log is folded anew.
        """
        try:
            return decide(decisions)
        except BaseException as error:
            begun = bool(self._begun)  # records before this one were written already
            if decisions.end() is not None or begun or not isinstance(error, HeadwaterError):
                self.log.break_fold()
            raise

    def _next_record(self) -> None:
        """End a record of a call that goes on with another one. All of them are durable when the last one is."""
        decisions = self.log.decisions
        now, value = decisions.fold.now, decisions.end()
        future = None if value is None else self.log.append(value, None)
        if future is not None:
            future.add_done_callback(_looked_at)
            self._begun.append(future)
        decisions.begin(now)

    def commit(self, answer: T, again: Callable[[], Awaitable[T]], *, recall: Callable[[T], object] | None = None) -> Awaitable[T]:
        """End the record of a call; return its answer, for when it is durable.

        `again`: makes the call anew, where it was not written. `recall`: is called with an answer that has not reached its caller.
        """
        value, begun = self.log.decisions.end(), self._begun
        if value is None:
            return self._unwritten(answer, again) if not begun else self._written(begun, answer)
        future = self.log.append(value, answer)
        if future is None:
            return self.later(again) if not begun else self._written(begun, None)
        if self.waiting:
            self.wake()
        return future if recall is None else KnownAnswer(future, answer, recall)

    async def later(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call once the queue can be written again. Errors: those of `QueueLog.ready`, and of the call."""
        await self.log.ready()
        return await call()

    async def _unwritten(self, answer: T, again: Callable[[], Awaitable[T]]) -> T:
        """The answer of a call that has changed nothing: what it has seen must be durable."""
        return answer if await self.log.tail() else await self.later(again)

    async def _written(self, begun: list[asyncio.Future[None]], answer: T | None) -> T:
        """The answer of a call whose records were written before its end was known. None: the last one was not."""
        for written in begun:
            await written
        if answer is None:
            raise OutcomeUnknown("A part of the call is done, another is not.", hint="Make it again: tokens that are done are stale then.")
        return answer

    async def look(self, see: Callable[[Decisions], T]) -> T:
        """What `see` finds, with everything done that is overdue; given once it is durable."""
        while True:
            await self._up_to_date()
            seen = see(self.decisions)
            if await self.log.tail():
                return seen

    async def look_at(self, see: Callable[[Decisions], list[T]], row_of: Callable[[T], Row]) -> list[T]:
        """`look` for rows, or for what has rows: with all their data. Errors: those of reading them."""
        while True:
            await self._up_to_date()
            fold, seen = self.decisions.fold, see(self.decisions)
            rows = [row_of(item) for item in seen]
            with held(fold, places_of(rows)):
                if not await self.log.tail():
                    continue
                try:
                    await self.reader.fill(rows)
                except OffsetGone:
                    if fold is self.decisions.fold:
                        raise
                    continue  # folded anew meanwhile: what was held is held no longer
            return seen

    async def _up_to_date(self) -> None:
        """Return when the fold can be looked at, with everything done that is overdue."""
        while True:
            await self.log.ready()
            self.turn.end()
            now = self.now_ms()
            if self.decisions.overdue(now):
                self._advance(now)
            if not self.log.broken:
                self.decisions.fold.order.promote(now)
                return

    def statistics(self) -> QueueStatistics:
        self.turn.end()
        return statistics_of(self.decisions, len(self.waiting), len(self.results), self.now_ms())

    def listen(self, after: int | None = None) -> AsyncIterator[QueueEvent]:
        """Events from now on; before them the deaths behind a position."""
        self.turn.end()
        fold = self.decisions.fold
        listening = self.events.listen(fold.order.due, () if after is None else deaths_behind(fold, after, self.log.durable))
        self._counts.begin()
        self.set_alarm()
        return listening

    def _reset(self) -> QueueEvent:
        now = self.now_ms()
        statistics = statistics_of(self.decisions, len(self.waiting), len(self.results), now)
        return QueueEvent("reset", now, counts=counts_told(statistics, Rates()), position=self.log.durable)

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
        served = self.decide(decisions, self.waiting.serve)
        value = decisions.end()
        future = None if value is None else self.log.append(value, None)
        if future is not None:
            for claim, _ in served:
                self.waiting.remove(claim)
            future.add_done_callback(partial(self._served, served))

    def _served(self, served: Served, written: asyncio.Future[None]) -> None:
        if written.exception() is not None:  # they wait on; what was claimed all the same is released once the log is folded anew
            self.waiting.put_back([claim for claim, _ in served])
        elif any(lacks_data(rows) for _, rows in served):
            self.claims.serve(served)
        else:
            self.tell(served)

    def tell(self, served: Served) -> None:
        """Give claims that have waited their rows."""
        for claim, rows in served:
            if claim.future.done():  # its caller has given up
                self.give_back(rows)
            else:
                claim.future.set_result(rows)

    def give_back(self, rows: list[ClaimedRow]) -> None:
        """Release claims that reach nobody."""
        self._release([claimed.token for claimed in rows])

    def _release(self, tokens: list[str]) -> None:
        decisions = self.begin(self.now_ms()) if tokens else None
        if decisions is not None:
            self.decide(decisions, lambda made: made.release(tokens, None))
            self.write(decisions)
            self.wake()

    def _advance(self, now: int) -> None:
        """Write what has happened by itself: leases that have ended, rows that have expired."""
        decisions, more = self.log.decisions, True
        while more and not self.log.broken:
            self._begun = []
            decisions.begin(now)
            more = self.decide(decisions, lambda made: made.advance(_AT_ONCE))
            self.write(decisions)
        self.wake()

    def write(self, decisions: Decisions) -> None:
        """End a record for whose answer nobody waits."""
        value = decisions.end()
        future = None if value is None else self.log.append(value, None)
        if future is not None:
            future.add_done_callback(_looked_at)

    def _ring(self) -> None:
        if self.log.broken:
            return
        now = self.now_ms()
        if self.decisions.overdue(now):
            self._advance(now)
        if self.decisions.fold.forgets + _FORGET_AFTER <= now and not self.log.broken:
            self.decisions.begin(now)  # which forgets what is over; the region hears of it by and by
            self.decisions.end()
            self._carrier.look()
        if not self.log.broken:
            due = self.decisions.fold.order.promote(now)
            if (
                self.events.due(now, self.decisions.fold.order.due, self.log.durable) or due
            ):  # whoever has looked at its date has let a row be due, too
                self._counts.look()
        self.wake()
        self.set_alarm()

    def set_alarm(self) -> None:
        """Ring at the next date: of a lease or an expiry; and of a due row, where somebody waits for it."""
        if self.log.broken:
            return
        fold = self.log.decisions.fold
        date = min(fold.claims.next_end() + 1, fold.expiries.next_date(), fold.forgets + _FORGET_AFTER)
        if (self.waiting or self.events) and not fold.paused:
            date = min(date, fold.order.future.next_date())
            if self.decisions.limited and fold.order.due and self.waiting:  # nobody else asks whether the rate allows a row
                date = min(date, fold.starts.next_allowed())
        self._alarm.set(NEVER if date >= NEVER else date)

    # -- after each commit, and at the end -----------------------------------------------------------------------------------

    def _settled(self) -> None:
        """Once for all calls that were committed together; and when the log was folded anew, before any other call."""
        log, decisions = self.log, self.log.decisions
        fold = decisions.fold
        if self.results.by_row or decisions.ended:
            if self._fold is not fold:
                self.results.look_again(fold, self.now_ms())
            self.results.tell(decisions, log.durable)
        self._fold = fold
        if log.unheard:
            tokens, log.unheard = log.unheard, []
            self._release(tokens)
        if decisions.died:
            self.events.died(decisions.died, log.durable)
        if self.events:
            self.events.due(self.now_ms(), fold.order.due, log.durable)
            self._counts.look()
        if fold.columns.waits.waiters and not log.broken and decisions.doomed:
            self._advance(self.now_ms())
        self.set_alarm()
        self._carrier.look()
        if self._notices is not None:
            self._notices.look()
        if self.waiting.claims:
            self.wake()

    def _ended(self, error: HeadwaterError) -> None:
        self._alarm.stop()
        self._counts.stop()
        self.waiting.fail(error)
        self.results.fail(error)
        self.events.close()

    async def mark(self) -> None:
        await self._carrier.mark()

    async def aclose(self, error: HeadwaterError | None = None) -> None:
        """`error`: why it ends, for the calls that wait and those that come; `Closed` unless given."""
        await self._carrier.stop()
        if self._notices is not None:
            await self._notices.stop()
        self.turn.end()
        if not self.log.broken:
            await self.log.tail()
        await self.claims.settle()
        error = error or Closed(f"The queue {self.name} is closed.", hint="Open it again.")
        self.log.close(error)
        self._ended(error)


def _looked_at(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
