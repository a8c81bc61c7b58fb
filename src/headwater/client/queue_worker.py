"""The worker of a queue: claims rows, runs a function for each, and brings back what became of them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from headwater.client import row_lines
from headwater.client.dead_calls import DeathSource, call_with_deaths
from headwater.client.queue_running import BEATS, ClaimSource, RunningRows, WorkerReport, lease_of
from headwater.client.worker_signals import stop_signals
from headwater.client.worker_threads import RowThreads, WorkerThreads, in_thread
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadInput, Closed, Fenced, HeadwaterError, NotOwner, Paused, TooLarge, Unavailable
from headwater.core.ids import random_id
from headwater.queue.handling import Backoff, GiveUp, Retry, duration_of
from headwater.queue.requests import FailedRow
from headwater.queue.result_form import returned_result

if TYPE_CHECKING:
    from headwater.client.queue_claim import Claim

_logger = logging.getLogger("headwater.queue")
_WAIT = "20s"  # how long a claim call waits for rows
_TOGETHER = 0.02  # seconds that what is finished waits for the claim call under way: most of them return sooner, and the next one takes it
_AGAIN, _LONGEST = 0.25, 5.0  # seconds before a call is made again after a server was away
_LEAVING = 3.0  # seconds beyond the grace in which a stopped worker tells what is finished; then nobody seems to listen
_TEXT = 2000  # characters of an error


class QueueWorker:
    """Runs a function for each row of a queue, `concurrency` at a time, until it is stopped.

    An asyncio function runs as a task, a plain one in a thread. A row is done when the function returns. What it returns, unless that is
    None, is the row's result; one that is neither JSON nor bytes, or too large, sends the row to the dead list. The row fails when the
    function raises, and is tried again as `retry` says, or as a `Retry` says; `GiveUp` sends it to the dead list. The worker extends the
    leases of all of its rows in one call, at a third of the lease. When it cannot, and a lease ends, it cancels the task: another worker
    may have the row.

    One claim call at a time brings back everything that is finished, and asks for rows for the free slots. While that call waits for rows,
    what is finished goes back in a call of its own. While the server is away, or another process owns the queue, the worker tries again;
    `Closed`, `UnknownQueue` and the other errors end `run`. `stop`, SIGTERM and Ctrl-C end it, too: rows that run have `grace` to end, then
    they are cancelled and released. A thread cannot be cancelled: its row stays claimed until its lease ends. Where nobody takes what is
    finished then, `run` ends with `Unavailable`, and those rows run again when their leases have ended.
    """

    def __init__(
        self,
        queue: ClaimSource,
        function: Callable[[Any], Any],
        *,
        concurrency: int = 8,
        lease: str | None = None,
        group: str = "default",
        grace: str = "30s",
        drain: bool = False,
        retry: Backoff | None = None,
        on_dead: Callable[[Any], Any] | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """`drain`: end when no row is due and none runs. `on_dead`: called with each row that dies meanwhile. Errors: `BadInput`."""
        if not callable(function):
            raise BadInput(f"{function!r:.60} is no function.", hint="Give a function that takes a row.")
        if on_dead is not None and not callable(on_dead):
            raise BadInput(f"on_dead={on_dead!r:.60} is no function.", hint="Give a function that takes a dead row.")
        if type(concurrency) is not int or not 1 <= concurrency <= 10_000:
            raise BadInput(f"concurrency={concurrency!r:.60} runs nothing.", hint="Give a number from 1 to 10000.")
        self._queue, self._function, self._group, self._drain = queue, function, group, drain
        self._lease, self._on_dead = lease, on_dead
        if lease is not None and duration_of(lease, "lease") == 0:
            raise BadInput("A lease of nothing ends before a row can run.", hint='Give such as lease="60s".')
        self._grace = duration_of(grace, "grace") / 1000
        self._retry, self._clock, self._random = retry or Backoff(), clock or SystemClock(), random or Random()
        self.name = f"{random_id()[:12]}"
        """Names the worker in its claims."""
        self.forced: signal.Signals | None = None
        """The second signal, which has ended the rows that ran."""
        self.stopping: Callable[[], None] | None = None
        """Is called with the first signal."""
        self._rows = RunningRows(concurrency, self._clock)
        self._wake = asyncio.Event()
        self._stopping = False
        self._stop_at: float | None = None
        self._empty = False  # the last claim call found nothing, and nothing has finished since
        self._running: asyncio.Task[WorkerReport] | None = None
        self._plain = not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)))  # noqa: B004
        self._threads = WorkerThreads(concurrency, f"headwater-{queue.name}")
        self._in_threads = RowThreads(self._threads)

    # -- how it runs ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def run(self) -> WorkerReport:
        """Claim and run rows until `stop`, SIGTERM or Ctrl-C, or with `drain` until no row is due. Returns what became of them."""
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        with stop_signals(self._signalled):
            try:
                return await asyncio.shield(self._running)
            except asyncio.CancelledError:
                self.stop(grace="0ms")
                await asyncio.gather(self._running, return_exceptions=True)
                raise

    def stop(self, *, grace: str | None = None) -> None:
        """Claim no more. Rows that run have `grace` to end, as given to the worker unless said here; then they are released."""
        ends = self._clock.monotonic() + (self._grace if grace is None else duration_of(grace, "grace") / 1000)
        self._stop_at = ends if self._stop_at is None else min(ends, self._stop_at)
        self._stopping = True
        self._wake.set()

    async def aclose(self) -> None:
        """`stop`, and wait for the end."""
        if self._running is not None:
            self.stop()
            await asyncio.gather(self._running, return_exceptions=True)
        self._threads.shutdown()

    def _signalled(self, number: signal.Signals) -> None:
        if self._stopping:
            self.forced = number
        elif self.stopping is not None:
            self.stopping()
        self.stop(grace="0ms" if self._stopping else None)

    async def _run(self) -> WorkerReport:
        beside = [asyncio.create_task(self._heartbeats()), asyncio.create_task(self._end_lost_rows())]
        if self._on_dead is not None:
            beside.append(asyncio.create_task(call_with_deaths(cast(DeathSource, self._queue), self._on_dead, self._clock)))
        try:
            await self._put_schedules()
            await self._claim_rows()
            self._check_told()
            return self._rows.report()
        finally:
            for row in self._rows.all():
                row.task.cancel()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _put_schedules(self) -> None:
        """Put the rows of tasks that have schedules, where the function has such. Tries again as claims do."""
        put, pause = getattr(self._function, "put_schedules", None), _AGAIN
        while put is not None and not self._stopping:
            try:
                await put(self._queue)
                put = None
            except (Unavailable, Fenced, NotOwner) as error:
                if isinstance(error, Closed):
                    raise
                pause = await self._wait_for_server(error, pause)

    async def _wait_for_server(self, error: HeadwaterError, pause: float) -> float:
        """Wait before a call is made again; return how long to wait the next time."""
        _logger.warning("The worker of queue %s asks again in %.2g s: %s", self._queue.name, pause, error.message)
        await self._clock.sleep(pause * self._random.uniform(0.5, 1.0))
        return min(pause * 2, _LONGEST)

    async def _claim_rows(self) -> None:
        call: asyncio.Task[None] | None = None
        settling: asyncio.Task[None] | None = None
        leaving: asyncio.Task[None] | None = None
        began = 0.0
        try:
            while True:
                self._wake.clear()
                for task in (call, settling):
                    if task is not None and task.done():
                        task.result()  # errors that end the worker
                call = None if call is not None and call.done() else call
                settling = None if settling is not None and settling.done() else settling
                self._end_late_rows()
                if self._too_late() or (call is None and settling is None and self._over()):
                    return
                free = 0 if self._stopping else self._rows.free
                if call is None and (self._rows.finished or (free and not (self._drain and self._empty and self._rows.busy))):
                    call, began = self._begin_call(free), self._clock.monotonic()
                elif call is not None and settling is None and self._rows.finished and self._clock.monotonic() >= began + _TOGETHER:
                    settling = self._begin_call(0)
                if self._stopping and call is not None and leaving is None:
                    leaving = asyncio.create_task(self._leave())
                await self._turn(began if call is not None or settling is not None else None)
        finally:
            for task in (call, settling, leaving):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    def _over(self) -> bool:
        if self._rows.busy or self._rows.finished:
            return False
        return self._stopping or (self._drain and self._empty)

    def _too_late(self) -> bool:
        """Whether the worker ends whatever is not told: after `stop` nobody waits longer for it than the grace and a little."""
        return self._stop_at is not None and self._clock.monotonic() >= self._stop_at + _LEAVING

    def _check_told(self) -> None:
        """Errors: `Unavailable` where rows are finished that nobody was told of."""
        for row in self._rows.all():  # its function has not ended when it was cancelled
            self._rows.abandon(row)
        if count := self._rows.finished_count:
            raise Unavailable(
                f"The worker of queue {self._queue.name} has stopped, and could not say what became of {count} row{'s' * (count > 1)}.",
                hint="They run again when their leases have ended.",
            )

    def _begin_call(self, free: int) -> asyncio.Task[None]:
        """A call, whose end wakes the worker."""
        call = asyncio.create_task(self._call(free))
        call.add_done_callback(lambda _: self._wake.set())
        return call

    async def _turn(self, began: float | None) -> None:
        """Wait until there is something to do. `began`: when the call under way did; None: there is none."""
        alarms = []
        if began is not None and self._rows.finished:
            alarms.append(began + _TOGETHER)
        if self._stop_at is not None and self._rows.busy:
            alarms.append(self._stop_at)
        if self._stop_at is not None:
            alarms.append(self._stop_at + _LEAVING)
        alarm = None
        if alarms:
            now = self._clock.monotonic()
            if left := [date - now for date in alarms if date > now]:
                alarm = self._clock.call_later(min(left), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if alarm is not None:
                alarm.cancel()

    # -- calls ------------------------------------------------------------------------------------------------

    async def _call(self, free: int) -> None:
        """Bring back what is finished, ask for rows, and start them. Tries again while the server is away."""
        pause = _AGAIN
        while True:
            settled, sent = self._rows.take_finished(), self._clock.monotonic()
            wait = "0ms" if self._drain or not free else _WAIT
            try:
                answer = await self._queue.exchange(
                    free, lease=self._lease, wait=wait, group=self._group, worker=self.name,
                    done=settled.done, results=settled.results, fail=settled.failed, release=settled.released,
                )  # fmt: skip
            except Paused:
                self._rows.give_back(settled)
                if not self._drain or not free:
                    raise
                free, self._empty = 0, True  # bring back what is finished; a paused queue has no rows for a worker that drains
                if not self._rows.finished:
                    return
                continue
            except (Unavailable, Fenced, NotOwner) as error:
                self._rows.give_back(settled)
                if isinstance(error, Closed):
                    raise
                pause = await self._wait_for_server(error, pause)
                free = 0 if self._stopping else min(free, self._rows.free)
                if not free and not self._rows.finished:
                    return
                continue
            except TooLarge as error:
                if not self._rows.refused(settled, f"The result is too large: {error.message}"[:_TEXT]):
                    raise
                continue
            except BaseException:
                self._rows.give_back(settled)
                raise
            break
        self._rows.settled(settled, answer.stale)
        self._empty = bool(free) and not answer.claims
        claims, sent = await self._confirmed(answer.claims, sent)
        for claim in claims:
            if self._stopping:
                self._rows.release(claim.token)
            else:
                self._start(claim, sent)

    async def _confirmed(self, claims: Sequence[Claim], sent: float) -> tuple[Sequence[Claim], float]:
        """The claims that surely still hold, and a moment before their leases began.

        An answer that came late, to a process that was stopped or over a network that was, may hold rows that others run by now.
        """
        if not claims or self._clock.monotonic() - sent <= lease_of(claims[0]) / BEATS:
            return claims, sent
        sent = self._clock.monotonic()
        try:
            answer = await self._queue.exchange(0, lease=self._lease, worker=self.name, extend=[claim.token for claim in claims])
        except HeadwaterError as error:
            _logger.warning("%d rows of queue %s, whose claim took long, are not run: %s", len(claims), self._queue.name, error.message)
            stale = [claim.token for claim in claims]
        else:
            stale = answer.stale
        self._rows.lost(len(stale))
        return [claim for claim in claims if claim.token not in stale], sent

    async def _leave(self) -> None:
        """End the claim call that waits: a cancelled one could have claimed rows that nobody would know of."""
        try:
            await self._queue.leave(self.name)
        except HeadwaterError as error:
            _logger.warning("The worker of queue %s could not end its claim call: %s", self._queue.name, error.message)

    async def _heartbeats(self) -> None:
        while True:
            await self._rows.until_beat()
            tokens, sent = self._rows.tokens(), self._clock.monotonic()
            try:
                answer = await self._queue.exchange(0, lease=self._lease, worker=self.name, extend=tokens)
            except HeadwaterError as error:
                _logger.warning("The leases of %d rows of queue %s were not extended: %s", len(tokens), self._queue.name, error.message)
                self._rows.missed_beat()
            else:
                self._rows.extended(tokens, answer.stale, sent)
            self._end_late()

    async def _end_lost_rows(self) -> None:
        """Cancel rows whose leases end, also while a heartbeat is under way."""
        while True:
            await self._rows.until_late()
            self._end_late()

    def _end_late(self) -> None:
        for row in self._rows.late():
            _logger.warning("The lease of row %s of queue %s has ended while it ran.", row.claim.id, self._queue.name)
            row.lost = True
            if row.claim.token not in self._in_threads:
                row.task.cancel()

    # -- rows -------------------------------------------------------------------------------------------------

    def _start(self, claim: Claim, sent: float) -> None:
        self._rows.start(claim, asyncio.create_task(self._handle(claim)), sent)

    async def _handle(self, claim: Claim) -> None:
        row_lines.started(claim)
        began = self._clock.monotonic()
        try:
            self._in_threads.enter(claim.token)
            result = await (in_thread(partial(self._function, claim)) if self._plain else self._function(claim))
            if self._plain and inspect.isawaitable(result):
                result = await result
            kept = None if result is None else returned_result(result)
        except asyncio.CancelledError:
            if self._rows.cancelled(claim.token):
                self._rows.release(claim.token)
            else:
                self._fail(claim, "The function was cancelled.")
        except GiveUp as error:
            row_lines.given_up(claim, str(error))
            self._rows.fail(FailedRow(token=claim.token, error=str(error)[:_TEXT], give_up=True))
        except Retry as error:
            self._fail(claim, str(error), error.after)
        except Exception as error:
            self._fail(claim, f"{type(error).__name__}: {error}", raised=error)
        else:
            row_lines.done(claim, self._clock.monotonic() - began)
            self._rows.done(claim.token, kept)
        finally:
            self._empty = False
            self._wake.set()

    def _fail(self, claim: Claim, error: str, after: int | None = None, raised: Exception | None = None) -> None:
        wait = self._retry.wait_ms(claim.failures + 1, self._random) if after is None else after
        row_lines.failed(claim, error, wait, raised)
        self._rows.fail(FailedRow(token=claim.token, error=error[:_TEXT], retry_after=f"{wait}ms"))

    def _end_late_rows(self) -> None:
        """Cancel the rows that run longer than the grace after `stop`."""
        if self._stop_at is None or self._clock.monotonic() < self._stop_at:
            return
        for row in self._rows.all():
            if row.claim.token in self._in_threads:
                self._rows.abandon(row)
            elif not row.stopped:
                row.stopped = True
                row.task.cancel()
