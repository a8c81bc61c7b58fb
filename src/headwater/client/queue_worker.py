"""The worker of a queue: claims rows, runs a function for each, and brings back what became of them."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headwater.client.queue_running import ClaimSource, RunningRows, WorkerReport
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadInput, Closed, HeadwaterError, Paused, Unavailable
from headwater.core.ids import random_id
from headwater.queue.handling import Backoff, GiveUp, Retry, duration_of
from headwater.queue.requests import FailedRow

if TYPE_CHECKING:
    from headwater.client.queue_claim import Claim

_logger = logging.getLogger("headwater.queue")
_WAIT = "20s"  # how long a claim call waits for rows
_TOGETHER = 0.02  # seconds that what is finished waits for the claim call under way: most of them return sooner, and the next one takes it
_AGAIN, _LONGEST = 0.25, 5.0  # seconds before a call is made again after a server was away
_TEXT = 2000  # characters of an error


class QueueWorker:
    """Runs a function for each row of a queue, `concurrency` at a time, until it is stopped.

    An asyncio function runs as a task, a plain one in a thread. A row is done when the function returns. It fails when the function raises,
    and is tried again as `retry` says, or as a `Retry` says; `GiveUp` sends it to the dead list. The worker extends the leases of all of
    its rows in one call, at a third of the lease. When it cannot, and a lease ends, it cancels the task: another worker may have the row.

    One claim call at a time brings back everything that is finished, and asks for rows for the free slots. While that call waits for rows,
    what is finished goes back in a call of its own. While the server is away the worker tries again; `Closed`, `UnknownQueue` and the other
    errors end `run`. `stop`, SIGTERM and Ctrl-C end it, too: rows that run have `grace` to end, then they are cancelled and released. A
    thread cannot be cancelled: its row stays claimed until its lease ends.
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
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """`drain`: end when no row is due and none runs. Errors: `BadInput`."""
        if not callable(function):
            raise BadInput(f"{function!r:.60} is no function.", hint="Give a function that takes a row.")
        if type(concurrency) is not int or not 1 <= concurrency <= 10_000:
            raise BadInput(f"concurrency={concurrency!r:.60} runs nothing.", hint="Give a number from 1 to 10000.")
        self._queue, self._function, self._group, self._drain = queue, function, group, drain
        self._lease = lease
        if lease is not None and duration_of(lease, "lease") == 0:
            raise BadInput("A lease of nothing ends before a row can run.", hint='Give such as lease="60s".')
        self._grace = duration_of(grace, "grace") / 1000
        self._retry, self._clock, self._random = retry or Backoff(), clock or SystemClock(), random or Random()
        self.name = f"{random_id()[:12]}"
        """Names the worker in its claims."""
        self._rows = RunningRows(concurrency, self._clock)
        self._wake = asyncio.Event()
        self._stopping = False
        self._stop_at: float | None = None
        self._empty = False  # the last claim call found nothing, and nothing has finished since
        self._running: asyncio.Task[WorkerReport] | None = None
        plain = not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)))  # noqa: B004
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix=f"headwater-{queue.name}") if plain else None

    # -- how it runs ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def run(self) -> WorkerReport:
        """Claim and run rows until `stop`, SIGTERM or Ctrl-C, or with `drain` until no row is due. Returns what became of them."""
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        with self._signals():
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
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C stop the worker, the second time without grace. In the main thread alone: others get no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        numbers = [one for one in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(one) in (signal.SIG_DFL, signal.default_int_handler)]

        def stop() -> None:
            self.stop(grace="0ms" if self._stopping else None)

        for number in numbers:
            loop.add_signal_handler(number, stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def _run(self) -> WorkerReport:
        beating = asyncio.create_task(self._heartbeats())
        try:
            await self._claim_rows()
            return self._rows.report()
        finally:
            for row in self._rows.all():
                row.task.cancel()
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

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
                if call is None and settling is None and self._over():
                    return
                free = 0 if self._stopping else self._rows.free
                if call is None and (self._rows.finished or (free and not (self._drain and self._empty and self._rows.busy))):
                    call, began = asyncio.create_task(self._call(free)), self._clock.monotonic()
                elif call is not None and settling is None and self._rows.finished and self._clock.monotonic() >= began + _TOGETHER:
                    settling = asyncio.create_task(self._call(0))
                if self._stopping and call is not None and leaving is None:
                    leaving = asyncio.create_task(self._leave())
                await self._turn([task for task in (call, settling) if task is not None], began)
        finally:
            for task in (call, settling, leaving):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    def _over(self) -> bool:
        if self._rows.busy or self._rows.finished:
            return False
        return self._stopping or (self._drain and self._empty)

    async def _turn(self, tasks: list[asyncio.Task[None]], began: float) -> None:
        """Wait until there is something to do."""
        waking = asyncio.create_task(self._wake.wait())
        alarms = []
        if tasks and self._rows.finished:
            alarms.append(began + _TOGETHER)
        if self._stop_at is not None and self._rows.busy:
            alarms.append(self._stop_at)
        alarm = None
        if alarms and (left := min(alarms) - self._clock.monotonic()) > 0:
            alarm = self._clock.call_later(left, self._wake.set)
        try:
            await asyncio.wait([waking, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
            if alarm is not None:
                alarm.cancel()

    # -- calls ------------------------------------------------------------------------------------------------

    async def _call(self, free: int) -> None:
        """Bring back what is finished, ask for rows, and start them. Tries again while the server is away."""
        pause = _AGAIN
        while True:
            settled = self._rows.take_finished()
            wait = "0ms" if self._drain or not free else _WAIT
            try:
                answer = await self._queue.exchange(
                    free, lease=self._lease, wait=wait, group=self._group, worker=self.name,
                    done=settled.done, fail=settled.failed, release=settled.released,
                )  # fmt: skip
            except Paused:
                self._rows.give_back(settled)
                if not self._drain or not free:
                    raise
                free, self._empty = 0, True  # bring back what is finished; a paused queue has no rows for a worker that drains
                if not self._rows.finished:
                    return
                continue
            except Unavailable as error:
                self._rows.give_back(settled)
                if isinstance(error, Closed):
                    raise
                _logger.warning("The worker of queue %s asks again in %.2g s: %s", self._queue.name, pause, error.message)
                await self._clock.sleep(pause * self._random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST)
                free = 0 if self._stopping else min(free, self._rows.free)
                if not free and not self._rows.finished:
                    return
                continue
            except BaseException:
                self._rows.give_back(settled)
                raise
            break
        self._rows.settled(settled, answer.stale)
        self._empty = bool(free) and not answer.claims
        for claim in answer.claims:
            if self._stopping:
                self._rows.release(claim.token)
            else:
                self._start(claim)

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
            for row in self._rows.late():
                _logger.warning("The lease of row %s of queue %s has ended while it ran.", row.claim.id, self._queue.name)
                row.lost = True
                if self._threads is None:
                    row.task.cancel()

    # -- rows -------------------------------------------------------------------------------------------------

    def _start(self, claim: Claim) -> None:
        self._rows.start(claim, asyncio.create_task(self._handle(claim)))

    async def _handle(self, claim: Claim) -> None:
        try:
            if self._threads is None:
                await self._function(claim)
            else:
                run = contextvars.copy_context().run
                result = await asyncio.get_running_loop().run_in_executor(self._threads, run, self._function, claim)
                if inspect.isawaitable(result):
                    result = await result
        except asyncio.CancelledError:
            if self._rows.cancelled(claim.token):
                self._rows.release(claim.token)
            else:
                self._fail(claim, "The function was cancelled.")
        except GiveUp as error:
            self._rows.fail(FailedRow(token=claim.token, error=str(error)[:_TEXT], give_up=True))
        except Retry as error:
            self._fail(claim, str(error), error.after)
        except Exception as error:
            _logger.info("Row %s of queue %s has failed.", claim.id, self._queue.name, exc_info=error)
            self._fail(claim, f"{type(error).__name__}: {error}")
        else:
            self._rows.done(claim.token)
        finally:
            self._empty = False
            self._wake.set()

    def _fail(self, claim: Claim, error: str, after: int | None = None) -> None:
        wait = self._retry.wait_ms(claim.failures + 1, self._random) if after is None else after
        self._rows.fail(FailedRow(token=claim.token, error=error[:_TEXT], retry_after=f"{wait}ms"))

    def _end_late_rows(self) -> None:
        """Cancel the rows that run longer than the grace after `stop`."""
        if self._stop_at is None or self._clock.monotonic() < self._stop_at:
            return
        for row in self._rows.all():
            if self._threads is not None:
                self._rows.abandon(row)
            elif not row.stopped:
                row.stopped = True
                row.task.cancel()
