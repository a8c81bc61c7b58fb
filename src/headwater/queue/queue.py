"""A queue that this process owns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from headwater.core.clock import Clock
from headwater.core.errors import BadInput, HeadwaterError, Paused
from headwater.core.timers import Timers
from headwater.queue.answer import RecalledAnswer
from headwater.queue.checks import MOST_CLAIMS, checked_duration, checked_name
from headwater.queue.claim_reader import lacks_data
from headwater.queue.data_place import LARGE
from headwater.queue.data_reader import held, places_of
from headwater.queue.dead_notices import Post
from headwater.queue.decisions import Decisions, unknown_row
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.listing import END, KeyHistory, dead_row, find_dead, find_rows, schedules_of
from headwater.queue.queue_log import open_log
from headwater.queue.queue_puts import QueuePuts
from headwater.queue.quick import MOST_ROWS, QuickClaim
from headwater.queue.results import check_results, done_slices, fits_beside
from headwater.queue.row import Row
from headwater.queue.runtime import QueueRuntime
from headwater.queue.scan import AT_ONCE, scanned
from headwater.queue.selection import chosen_dead, dropped_dead, found_dead, found_row, itself, retried, row_of
from headwater.queue.statistics import counts_of
from headwater.queue.values import (
    Claimed,
    Counts,
    DeadRow,
    FailedClaim,
    HistoryEntry,
    Put,
    QueueEvent,
    QueueStatistics,
    RowResult,
    ScheduledRow,
    State,
)
from headwater.queue.waiting import WaitingClaim
from headwater.wal.region import Region

T = TypeVar("T")


class Queue(QueuePuts):
    """An open queue. Belongs to the event loop that opened it.

    Guarantees: a call that has returned is durable. Calls take effect in the order in which they are made, not in that of their awaiting.
    No row is claimed twice at once, and no two rows of one key are processed at once. A token that no longer counts changes nothing.
    Errors of every call: `Closed`; `Fenced` once another process has taken the queue; `OutcomeUnknown`, `DiskFull` and other
    `Unavailable` where the log could not be written.
    """

    def __init__(self, runtime: QueueRuntime) -> None:
        """`open_queue` makes it."""
        super().__init__(runtime)
        self.name = runtime.name
        quick = QuickClaim(runtime)
        self._claim_one, self._claim_some, self._done_one, self._done_some = quick.claim, quick.claim_some, quick.done, quick.done_some

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
        results: Mapping[str, RowResult] | None = None,
        fail: Sequence[FailedClaim] = (),
        extend: Sequence[str] = (),
        release: Sequence[str] = (),
    ) -> Awaitable[Claimed]:
        """Claim up to `n` rows, 10 000 at most; before that, tell what became of others. Waits up to `wait` milliseconds for the first row.

        `done`, `fail`, `extend` and `release` are made in this order, at once, and last whatever comes of the claim. `n=0` claims nothing.
        `results`: of the done rows, by token. Errors: `Paused` where the queue is paused and `wait` is 0: what was told before it is done
        nevertheless; `TooLarge` for a result.
        """
        if lease is None and not (fail or extend or release or results) and len(done) <= MOST_ROWS:
            if n == 1 and len(done) <= 1:
                answer = self._claim_one(group, worker, done)
            else:
                answer = self._claim_some(n, group, worker, done) if type(n) is int and 0 < n <= MOST_ROWS else None
            if answer is not None:
                return answer
        runtime, limit = self._runtime, self._runtime.log.region.limit
        if results:
            check_results(results, limit)
        lasts = checked_duration(lease, runtime.decisions.settings.lease, "A lease", 1)
        checked_duration(wait, 0, "A wait")
        for failure in fail:
            checked_duration(failure.retry_after, 0, "A retry")
        if type(n) is not int or not 0 <= n <= MOST_CLAIMS:
            raise BadInput(f"{n!r} rows cannot be claimed.", hint=f"Claim 0 to {MOST_CLAIMS} at once.")
        checked_name(group, "The consumer group")
        checked_name(worker, "The worker's name")

        if len(done_slices(done, results or {}, limit)) > 1 or (results and not fits_beside(results)):
            following = partial(
                self.claim, n, lease=lease, wait=wait, group=group, worker=worker, fail=fail, extend=extend, release=release
            )
            return self._claim_after(self.done(done, results), following)

        def again() -> Awaitable[Claimed]:
            return self.claim(
                n, lease=lease, wait=wait, group=group, worker=worker, done=done, results=results, fail=fail, extend=extend, release=release
            )

        def tell(decisions: Decisions) -> list[str]:
            stale = decisions.done(done, results) if done else []
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
        stale, paused = runtime.decide(decisions, tell), decisions.fold.paused
        claims = runtime.decide(decisions, lambda made: made.claim(n, lasts, group, worker)) if n and not paused else []
        if claims:
            answer = runtime.commit(Claimed(claims, stale), again, recall=self._recall)
            if decisions.fold.data.bytes and lacks_data(claims) and isinstance(answer, RecalledAnswer):
                return runtime.claims.completed(answer)
            return answer
        if not n or not (wait or paused):
            return runtime.commit(Claimed(claims, stale), again)
        commit = runtime.commit(stale, lambda: self._tell(tell))
        if not wait:
            return self._refused(commit)
        claim = WaitingClaim(n, lasts, group, worker)
        runtime.waiting.add(claim, wait)
        runtime.set_alarm()
        return self._wait(claim, commit)

    async def _claim_after(self, commit: Awaitable[list[str]], claim: Callable[[], Awaitable[Claimed]]) -> Claimed:
        stale = await commit
        claimed = await claim()
        return Claimed(claimed.claims, stale + claimed.stale)

    def _recall(self, claimed: Claimed) -> None:
        self._runtime.give_back(claimed.claims)

    async def _refused(self, commit: Awaitable[list[str]]) -> Claimed:
        await commit
        raise Paused(f"The queue {self.name} is paused.", hint=f"Resume it with `headwater queue resume {self.name}`, or wait.")

    async def _wait(self, claim: WaitingClaim, commit: Awaitable[list[str]]) -> Claimed:
        try:
            stale = await commit
            return Claimed(await asyncio.shield(claim.future), stale)
        except BaseException:
            if claim.future.done() and not claim.future.cancelled() and claim.future.exception() is None:
                self._runtime.give_back(claim.future.result())
            claim.future.cancel()
            raise
        finally:
            self._runtime.waiting.remove(claim)

    def done(self, tokens: Sequence[str], results: Mapping[str, RowResult] | None = None) -> Awaitable[list[str]]:
        """Remove rows that are processed; return the tokens that no longer count.

        `results`: what became of them, by token; kept for as long as the setting `results` says, and given by `result`. A row and its
        result are one record; those of many rows may be several. Errors: `TooLarge` for a result; then nothing has changed.
        """
        if 0 < len(tokens) <= MOST_ROWS and not results:
            answer = self._done_one(tokens[0]) if len(tokens) == 1 else self._done_some(tokens)
            if answer is not None:
                return answer
        limit = self._runtime.log.region.limit
        if results:
            check_results(results, limit)
        slices = done_slices(tokens, results or {}, limit)
        answers = [self._tell(lambda decisions, some=some: decisions.done(some, results)) for some in slices]  # type: ignore[misc]
        return answers[0] if len(answers) == 1 else _joined(answers)

    async def result(self, id: int, *, wait: int = 0) -> RowResult | None:
        """The result of a row that is done; None: it is not done yet. Waits up to `wait` milliseconds for it.

        A row that comes again has the result of its last run. Errors, also while it waits: `NotFound` where the row has left no result, was
        cancelled or has expired, where the result is forgotten, and for an id that no put has answered; `Conflict` for a dead row.
        """
        runtime, lasts = self._runtime, checked_duration(wait, 0, "A wait")
        return await runtime.results.find(runtime.look, id, lasts, runtime.now_ms)

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
        return runtime.commit(runtime.decide(decisions, decide), again)

    # -- looking, and by hand ------------------------------------------------------------------------------------------------

    async def cancel(self, key: bytes) -> Row:
        """Remove the waiting row of a key; return it. Errors: `NotFound`; `Conflict` while it is being processed."""
        return await self._tell_row(lambda decisions: decisions.cancel(key))

    async def run(self, key: bytes) -> Row:
        """Let the waiting row of a key be due now, whatever its date; its schedule stays. Errors: `NotFound`; `Conflict` as of `cancel`."""
        return await self._tell_row(lambda decisions: decisions.run(key))

    async def _tell_row(self, decide: Callable[[Decisions], Row]) -> Row:
        """Make a call whose answer is a row, with its data."""
        holding = ExitStack()

        def decided(decisions: Decisions) -> Row:
            row = decide(decisions)
            holding.enter_context(held(decisions.fold, places_of([row])))
            return row

        with holding:
            row = await self._tell(decided)
            await self._runtime.reader.fill([row])
        return row

    async def get(self, key: bytes | int) -> Row:
        """The row of a key, or of an id. Errors: `NotFound`."""
        rows = await self._runtime.look_at(partial(found_row, key), itself)
        if not rows:
            raise unknown_row(key)
        return rows[0]

    async def rows(self, *, state: State | None = None, prefix: bytes = b"", after: int = 0, limit: int = 100) -> list[Row]:
        """Rows by id, those above `after`; of one state, of keys that begin with `prefix`. A page ends with the row that fills 32 MiB.

        Other calls go on meanwhile: a row that is there throughout is listed once, one that comes, goes or changes may be listed or not.
        """
        now = self._runtime.now_ms

        def look(decisions: Decisions, after: int, limit: int, room: int) -> tuple[list[Row], int]:
            return find_rows(decisions.fold, state, prefix, after, limit, room, now=now(), at_once=AT_ONCE)

        return await scanned(self._runtime, look, itself, after, limit)

    async def schedules(self) -> list[ScheduledRow]:
        """The rows that come again, by key."""
        return await self._runtime.look(lambda decisions: schedules_of(decisions.fold, self._runtime.now_ms()))

    async def count(self) -> Counts:
        return await self._runtime.look(counts_of)

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
        """Dead rows by id, those above `after`; of keys that begin with `prefix`, of one reason. A page ends as one of `rows` does."""

        def look(decisions: Decisions, after: int, limit: int, room: int) -> tuple[list[DeadRow], int]:
            return find_dead(decisions.fold, prefix, reason, after, limit, room, at_once=AT_ONCE)

        return await scanned(self._runtime, look, row_of, after, limit)

    async def dead_get(self, id: int) -> DeadRow:
        """Errors: `NotFound`."""
        return (await self._runtime.look_at(lambda decisions: [dead_row(decisions.fold, id)], row_of))[0]

    async def dead_retry(self, ids: Sequence[int] | None = None, *, prefix: bytes = b"", reason: str = "") -> list[Put]:
        """Put dead rows again, those of `ids` or all that a filter finds; they leave the dead list. Many of them in several steps.

        What was put of their keys since is newer, and stays. Errors: `NotFound` for an unknown id; then nothing has changed.
        """

        puts: list[Put] = []
        async for some in self._dead_slices(ids, prefix, reason):
            puts += await self._tell(partial(retried, some))
        return puts

    async def dead_drop(self, ids: Sequence[int] | None = None, *, prefix: bytes = b"", reason: str = "") -> int:
        """Forget dead rows; return how many. Errors: `NotFound` for an unknown id; then nothing has changed."""

        dropped = 0
        async for some in self._dead_slices(ids, prefix, reason):
            dropped += await self._tell(partial(dropped_dead, some))
        return dropped

    async def _dead_slices(self, ids: Sequence[int] | None, prefix: bytes, reason: str) -> AsyncIterator[list[int]]:
        """The ids of the dead rows that are meant, in slices that fit into a record each. Of a filter, rows that were dead at the call."""
        look = self._runtime.look
        if ids is not None:
            for some in await look(partial(chosen_dead, ids)):
                yield some
            return
        after, last = -1, await look(lambda decisions: max(decisions.fold.deaths, default=END))
        while after < last:
            slices, after = await look(partial(found_dead, prefix, reason, after, last))
            for some in slices:
                yield some
            await asyncio.sleep(0)

    def statistics(self) -> QueueStatistics:
        """What the queue holds, and what has happened since it was opened. What is under way is counted."""
        return self._runtime.statistics()

    async def history(self, key: bytes) -> list[HistoryEntry]:
        """What the log still holds of a key, the oldest first."""
        log, history = self._runtime.log, KeyHistory(key)
        await log.ready()
        reader = log.region.read(log.table)
        while entries := await reader.next_batch():
            await asyncio.to_thread(history.read_all, entries)  # decoding a batch takes longer than others should wait
        return history.entries

    def listen(self, after: int | None = None) -> AsyncIterator[QueueEvent]:
        """Rows that become due and rows that die, from now on, and how many rows there are: at once, and each second in which that changes.

        `after`: the position of the last event that was seen. Rows that have died behind it, and are dead still, are told first. One that
        does not keep up, or comes back too late for that, is told `reset`, with how many rows there are.
        """
        return self._runtime.listen(after)

    def change_settings(self, settings: EffectiveSettings) -> None:
        """Use other settings from now on. The catalogue holds them: here they are only used."""
        self._runtime.use(settings)

    async def mark(self) -> None:
        """Tell the region which records are needed no longer, so that it can be cleaned. The queue does so by itself, a little later."""
        await self._runtime.mark()

    async def aclose(self, error: HeadwaterError | None = None) -> None:
        """Finish the calls under way; waiting claims and later calls get `error`, or `Closed`. Closing twice is no error."""
        await self._runtime.aclose(error)


async def open_queue(
    name: str,
    region: Region,
    table: int,
    *,
    settings: EffectiveSettings,
    clock: Clock,
    timers: Timers,
    large: int = LARGE,
    post: Post | None = None,
) -> Queue:
    """Fold a queue from its table, and serve it. `region` stays its caller's to close, after the queue. `post`: tells of dead rows.

    `large`: data of more bytes stay on the log. Errors: `Damaged`, `Closed`, `Fenced`.
    """
    log = await open_log(region, table, settings=settings, clock=clock, large=large)
    return Queue(QueueRuntime(name, log, clock=clock, timers=timers, post=post))


async def _joined(answers: Sequence[Awaitable[list[str]]]) -> list[str]:
    return [token for answer in answers for token in await answer]
