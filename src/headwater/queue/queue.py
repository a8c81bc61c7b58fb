"""A queue that this process owns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import TypeVar

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import BadInput, KeyReused, Paused, TooLarge
from headwater.core.timers import Timers
from headwater.queue.checks import MAX_NAME, ROOM, SMALL, CheckedRow, checked_duration, checked_name, checked_row
from headwater.queue.date_heap import NEVER
from headwater.queue.decisions import Decisions, unknown_row
from headwater.queue.listing import KeyHistory, dead_ids, dead_row, rows_of, schedules_of, slot_of_id
from headwater.queue.queue_log import open_log
from headwater.queue.quick import QuickClaim, QuickPut
from headwater.queue.records import MOST_ROWS, OUTCOMES, OVERHEAD, PUT_SIZE
from headwater.queue.row import NewRow, Row
from headwater.queue.row_view import row_at
from headwater.queue.runtime import QueueRuntime
from headwater.queue.settings import QueueSettings
from headwater.queue.values import (
    Claimed,
    Counts,
    DeadRow,
    FailedClaim,
    HistoryEntry,
    Put,
    QueueEvent,
    QueueStatistics,
    ScheduledRow,
    State,
)
from headwater.queue.waiting import WaitingClaim
from headwater.wal.region import Region

T = TypeVar("T")
_DEAD_AT_ONCE, _DEAD_BYTES = 500, 256 << 10  # dead rows that one record retries or drops, and bytes of them
KEPT_ANSWERS = 86_400_000
"""Milliseconds for which the answer to a put with an idempotency key is kept."""


class Queue:
    """An open queue. Belongs to the event loop that opened it.

    Guarantees: a call that has returned is durable. Calls take effect in the order in which they are made, not in that of their awaiting.
    No row is claimed twice at once, and no two rows of one key are processed at once. A token that no longer counts changes nothing.
    Errors of every call: `Closed`; `Fenced` once another process has taken the queue; `OutcomeUnknown`, `DiskFull` and other
    `Unavailable` where the log could not be written.
    """

    def __init__(self, runtime: QueueRuntime) -> None:
        """`open_queue` makes it."""
        self._runtime = runtime
        self.name = runtime.name
        quick = QuickClaim(runtime, self._recall)
        self._put_new, self._claim_one, self._done_one = QuickPut(runtime).put, quick.claim, quick.done

    # -- putting ----------------------------------------------------------------------------------------------------------

    def put(self, rows: Sequence[NewRow], *, idempotency: str = "") -> Awaitable[list[Put]]:
        """Insert rows, or merge them into the waiting rows of their keys; all of them or none. One outcome for each, in their order.

        `idempotency`: a name for this put. A put of the same rows under it within 24 hours changes nothing and has the same outcomes,
        which say that they are `replayed`. Errors: `BadInput` for a row that cannot be: no key, a priority outside of 0 to 255, a bad
        date; `KeyReused` for other rows under a known name; `TooLarge`.
        """
        if len(rows) == 1 and not idempotency:
            answer = self._put_new(rows[0])
            if answer is not None:
                return answer
        runtime = self._runtime
        now, settings = runtime.now_ms(), runtime.decisions.settings
        checked = [checked_row(new, settings, now) for new in rows]
        if len(checked) != 1 or len(checked[0].data) > SMALL:
            self._check_size(checked, named=bool(idempotency))
        if idempotency:
            return self._put_named(rows, checked, idempotency)
        return self._put(now, checked)

    def _put(self, now: int, checked: list[CheckedRow]) -> Awaitable[list[Put]]:
        runtime = self._runtime
        decisions = runtime.begin(now)
        if decisions is None:
            return runtime.later(lambda: self._put(runtime.now_ms(), checked))
        return runtime.commit([decisions.put(new) for new in checked], lambda: self._put(runtime.now_ms(), checked))

    def _put_named(self, rows: Sequence[NewRow], checked: list[CheckedRow], name: str) -> Awaitable[list[Put]]:
        again = partial(self._put_named, rows, checked, name)
        checked_name(name, "The idempotency key")
        digest = blake2b(msgspec.msgpack.encode(rows), digest_size=16).digest()
        decisions = self._runtime.begin(self._runtime.now_ms())
        if decisions is None:
            return self._runtime.later(again)
        known = decisions.fold.answers.get(name)
        if known is None or known.expires <= decisions.fold.now:
            puts = [decisions.put(new) for new in checked]
            decisions.answered(decisions.fold.now + KEPT_ANSWERS, name, digest, puts)
            return self._runtime.commit(puts, again)
        if known.digest != digest:
            decisions.end()
            raise KeyReused(f"Other rows were put under the idempotency key {name!r}.", hint="Use another one for each put.")
        return self._runtime.commit([Put(id, OUTCOMES[kind], date, bool(raised), True) for id, kind, date, raised in known.puts], again)

    def _check_size(self, checked: list[CheckedRow], *, named: bool) -> None:
        limit = self._runtime.log.region.limit - ROOM
        if len(checked) > MOST_ROWS:
            raise TooLarge(f"A put of {len(checked)} rows is too large.", hint=f"Put up to {MOST_ROWS} rows at once.")
        size = sum(len(new.key) + len(new.data) + len(new.lane) + len(new.schedule) for new in checked) + OVERHEAD * (len(checked) + 1)
        if named:
            size += MAX_NAME + PUT_SIZE * len(checked)
        if size > limit:
            raise TooLarge(f"The rows have {size} bytes; the queue's log takes {limit} at once.", hint="Put fewer or smaller rows at once.")

    # -- claiming ---------------------------------------------------------------------------------------------------------

    def claim(
        self,
        n: int = 1,
        *,
        lease: int | None = None,
        wait: int = 0,
        group: str = "default",
        worker: str = "",
        done: Sequence[str] = (),
        fail: Sequence[FailedClaim] = (),
        extend: Sequence[str] = (),
        release: Sequence[str] = (),
    ) -> Awaitable[Claimed]:
        """Claim up to `n` rows; before that, tell what became of others. Waits up to `wait` milliseconds for the first row.

        `done`, `fail`, `extend` and `release` are made in this order, at once, and last whatever comes of the claim. `n=0` claims nothing.
        Errors: `Paused` where the queue is paused and `wait` is 0: what was told before it is done nevertheless.
        """
        if n == 1 and lease is None and not (fail or extend or release) and len(done) <= 1:
            answer = self._claim_one(group, worker, done)
            if answer is not None:
                return answer
        runtime = self._runtime
        lasts = checked_duration(lease, runtime.decisions.settings.lease, "A lease", 1)
        checked_duration(wait, 0, "A wait")
        for failure in fail:
            checked_duration(failure.retry_after, 0, "A retry")
        if type(n) is not int or n < 0:
            raise BadInput(f"{n!r} rows cannot be claimed.", hint="Claim 0 or more.")
        checked_name(group, "The consumer group")
        checked_name(worker, "The worker's name")

        def again() -> Awaitable[Claimed]:
            return self.claim(n, lease=lease, wait=wait, group=group, worker=worker, done=done, fail=fail, extend=extend, release=release)

        def tell(decisions: Decisions) -> list[str]:
            stale = decisions.done(done) if done else []
            if fail:
                stale += decisions.fail(fail)
            if extend:
                stale += decisions.extend(extend, lasts)
            if release:
                stale += decisions.release(release, None)
            return stale

        runtime.serve_first()
        now = runtime.now_ms()
        decisions = runtime.begin(now)
        if decisions is None:
            return runtime.later(again)
        stale, paused = tell(decisions), decisions.fold.paused
        if decisions.died:
            runtime.tell_deaths()
        claims = decisions.claim(n, lasts, group, worker) if n and not paused else []
        if claims:
            return runtime.commit(Claimed(claims, stale), again, recall=self._recall)
        if not n or not (wait or paused):
            return runtime.commit(Claimed(claims, stale), again)
        told = runtime.commit(stale, lambda: self._tell(tell))
        if not wait:
            return self._refused(told)
        claim = WaitingClaim(n, lasts, group, worker)
        runtime.waiting.add(claim, now + wait)
        runtime.set_alarm()
        return self._wait(claim, told)

    def _recall(self, claimed: Claimed) -> None:
        self._runtime.give_back(claimed.claims)

    async def _refused(self, told: Awaitable[list[str]]) -> Claimed:
        await told
        raise Paused(f"The queue {self.name} is paused.", hint=f"Resume it with `headwater queue resume {self.name}`, or wait.")

    async def _wait(self, claim: WaitingClaim, told: Awaitable[list[str]]) -> Claimed:
        try:
            stale = await told
            return Claimed(await asyncio.shield(claim.future), stale)
        except BaseException:
            if claim.future.done() and not claim.future.cancelled() and claim.future.exception() is None:
                self._runtime.give_back(claim.future.result())
            claim.future.cancel()
            raise
        finally:
            self._runtime.waiting.remove(claim)

    def done(self, tokens: Sequence[str]) -> Awaitable[list[str]]:
        """Remove rows that are processed; return the tokens that no longer count."""
        if len(tokens) == 1:
            answer = self._done_one(tokens[0])
            if answer is not None:
                return answer
        return self._tell(lambda decisions: decisions.done(tokens))

    def extend(self, tokens: Sequence[str], lease: int | None = None) -> Awaitable[list[str]]:
        """Let leases begin anew, as now; return the tokens that no longer count."""
        lasts = checked_duration(lease, self._runtime.decisions.settings.lease, "A lease", 1)
        return self._tell(lambda decisions: decisions.extend(tokens, lasts))

    def fail(self, failures: Sequence[FailedClaim]) -> Awaitable[list[str]]:
        """Give rows back that could not be processed; return the tokens that no longer count."""
        for failure in failures:
            checked_duration(failure.retry_after, 0, "A retry")
        return self._tell(lambda decisions: decisions.fail(failures))

    def release(self, tokens: Sequence[str], delay: int | None = None) -> Awaitable[list[str]]:
        """Give rows back untouched; return the tokens that no longer count."""
        if delay is not None:
            checked_duration(delay, 0, "A delay")
        return self._tell(lambda decisions: decisions.release(tokens, delay))

    def _tell(self, decide: Callable[[Decisions], T]) -> Awaitable[T]:
        """Make a call by one record; raises what `decide` raises, and then nothing has changed."""
        runtime = self._runtime
        decisions, again = runtime.begin(runtime.now_ms()), partial(self._tell, decide)
        if decisions is None:
            return runtime.later(again)
        try:
            answer = decide(decisions)
        except BaseException:
            decisions.end()
            raise
        if decisions.died:
            runtime.tell_deaths()
        return runtime.commit(answer, again)

    # -- looking, and by hand ------------------------------------------------------------------------------------------------

    async def cancel(self, key: bytes) -> Row:
        """Remove the waiting row of a key; return it. Errors: `NotFound`; `Conflict` while it is being processed."""
        return await self._tell(lambda decisions: decisions.cancel(key))

    async def get(self, key: bytes | int) -> Row:
        """The row of a key, or of an id. Errors: `NotFound`."""
        row = await self._runtime.look(partial(_found, key))
        if row is None:
            raise unknown_row(key)
        return row

    async def rows(self, *, state: State | None = None, prefix: bytes = b"", after: int = 0, limit: int = 100) -> list[Row]:
        """Rows by id, those above `after`; of one state, of keys that begin with `prefix`."""
        now = self._runtime.now_ms
        return await self._runtime.look(lambda decisions: rows_of(decisions.fold, state, prefix, after, limit, now=now()))

    async def schedules(self) -> list[ScheduledRow]:
        """The rows that come again, by key."""
        return await self._runtime.look(lambda decisions: schedules_of(decisions.fold, self._runtime.now_ms()))

    async def count(self) -> Counts:
        return await self._runtime.look(_counts)

    async def pause(self) -> None:
        """Give out no rows until `resume`. Pausing twice is no error."""
        await self._tell(Decisions.pause)

    async def resume(self) -> None:
        """Give out rows again. Resuming twice is no error."""
        await self._tell(Decisions.resume)
        self._runtime.set_alarm()

    @property
    def paused(self) -> bool:
        return bool(self._runtime.decisions.fold.paused)

    async def dead_list(self, *, prefix: bytes = b"", reason: str = "", after: int = 0, limit: int = 100) -> list[DeadRow]:
        """Dead rows by id, those above `after`; of keys that begin with `prefix`, of one reason."""

        def see(decisions: Decisions) -> list[DeadRow]:
            ids = [id for id in dead_ids(decisions.fold, prefix, reason) if id > after]
            return [dead_row(decisions.fold, id) for id in ids[:limit]]

        return await self._runtime.look(see)

    async def dead_get(self, id: int) -> DeadRow:
        """Errors: `NotFound`."""
        return await self._runtime.look(lambda decisions: dead_row(decisions.fold, id))

    async def dead_retry(self, ids: Sequence[int] | None = None, *, prefix: bytes = b"", reason: str = "") -> list[Put]:
        """Put dead rows again, those of `ids` or all that a filter finds; they leave the dead list. Many of them in several steps.

        What was put of their keys since is newer, and stays. Errors: `NotFound` for an unknown id; then nothing has changed.
        """

        puts: list[Put] = []
        for some in await self._runtime.look(partial(_chosen, ids, prefix, reason)):
            puts += await self._tell(partial(_retried, some))
        return puts

    async def dead_drop(self, ids: Sequence[int] | None = None, *, prefix: bytes = b"", reason: str = "") -> int:
        """Forget dead rows; return how many. Errors: `NotFound` for an unknown id; then nothing has changed."""

        dropped = 0
        for some in await self._runtime.look(partial(_chosen, ids, prefix, reason)):
            dropped += await self._tell(partial(_dropped, some))
        return dropped

    def statistics(self) -> QueueStatistics:
        """What the queue holds, and what has happened since it was opened. What is under way is counted."""
        decisions, waiting = self._runtime.decisions, len(self._runtime.waiting)
        decisions.fold.order.promote(self._runtime.now_ms())
        oldest, homes = decisions.fold.order.oldest_due(), decisions.fold.homes
        return QueueStatistics(
            counts=_counts(decisions),
            paused=self.paused,
            waiting_claims=waiting,
            oldest_due=0 if oldest == NEVER else oldest,
            log_records=homes.records,
            log_bytes=homes.bytes,
            **{name: getattr(decisions.totals, name) for name in decisions.totals.__slots__},
        )

    async def history(self, key: bytes) -> list[HistoryEntry]:
        """What the log still holds of a key, the oldest first."""
        log, found = self._runtime.log, KeyHistory(key)
        await log.ready()
        reader = log.region.read(log.table)
        while entries := await reader.next_batch():
            for entry in entries:
                found.read(entry.sequence, entry.payload)
        return found.entries

    def listen(self) -> AsyncIterator[QueueEvent]:
        """Rows that become due and rows that die, from now on. A listener that does not keep up misses events."""
        listening = self._runtime.events.listen(self._runtime.decisions.fold.order.due)
        self._runtime.set_alarm()
        return listening

    def change_settings(self, settings: QueueSettings) -> None:
        """Use other settings from now on. The catalogue holds them: here they are only used."""
        self._runtime.use(settings)

    async def mark(self) -> None:
        """Tell the region which records are needed no longer, so that it can be cleaned. The queue does so by itself, a little later."""
        await self._runtime.mark()

    async def aclose(self) -> None:
        """Finish the calls under way; waiting claims are `Closed`. Closing twice is no error. The region stays open."""
        await self._runtime.aclose()


async def open_queue(name: str, region: Region, table: int, *, settings: QueueSettings, clock: Clock, timers: Timers) -> Queue:
    """Fold a queue from its table, and serve it. `region` stays its caller's to close, after the queue.

    Errors: `Damaged`, `Closed`, `Fenced`.
    """
    log = await open_log(region, table, settings=settings, clock=clock)
    return Queue(QueueRuntime(name, log, clock=clock, timers=timers))


def _found(key: bytes | int, decisions: Decisions) -> Row | None:
    fold = decisions.fold
    slot = slot_of_id(fold, key) if isinstance(key, int) else fold.by_key.get(key, -1)
    return None if slot < 0 else row_at(fold, slot)


def _chosen(ids: Sequence[int] | None, prefix: bytes, reason: str, decisions: Decisions) -> list[list[int]]:
    """The ids of the dead rows that are meant, in slices that fit into a record each. Errors: `NotFound`."""
    fold, slices, size = decisions.fold, list[list[int]](), 0
    for id in dict.fromkeys(ids) if ids is not None else dead_ids(fold, prefix, reason):
        row = dead_row(fold, id).row
        large = len(row.key) + len(row.data) + OVERHEAD
        size += large
        if not slices or len(slices[-1]) >= _DEAD_AT_ONCE or size > _DEAD_BYTES:
            slices.append([])
            size = large
        slices[-1].append(id)
    return slices


def _retried(ids: list[int], decisions: Decisions) -> list[Put]:
    return [decisions.retry(id) for id in ids if id in decisions.fold.deaths]


def _dropped(ids: list[int], decisions: Decisions) -> int:
    there = [id for id in ids if id in decisions.fold.deaths]
    decisions.drop(there)
    return len(there)


def _counts(decisions: Decisions) -> Counts:
    fold = decisions.fold
    return Counts(fold.order.due, fold.order.later, len(fold.follow_ups), len(fold.claims), len(fold.deaths))
