"""Many asyncio callers, one sync: whatever queued up while the disk was busy goes out as the next batch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from headwater.core.errors import Closed
from headwater.log.layout import MAX_BATCH
from headwater.log.record import Record

_Waiting = tuple[Sequence[Record], "asyncio.Future[Sequence[int]]"]
_MOST_BYTES = MAX_BATCH // 2


class Appender:
    """Group commit for one partition, from one event loop. Works with any `append`: a Log's or a Writer's.

    `append` returns once its records are durable, with their offsets; the records of one call stay together and in order. There is no
    lingering: a batch is what came in while the one before was being synced. When a batch fails, everybody in it gets the error.
    """

    def __init__(self, append: Callable[[Sequence[Record]], Sequence[int]], *, name: str = "log") -> None:
        self._append = append
        self._loop = asyncio.get_running_loop()
        self._queue: list[_Waiting] = []
        self._wake = threading.Semaphore(0)
        self._idle = True
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"headwater-append-{name}", daemon=True)
        self._thread.start()

    def append(self, records: Sequence[Record]) -> asyncio.Future[Sequence[int]]:
        """Errors: those of `Log.append`, for the whole batch that these records travelled in; `Closed`."""
        future: asyncio.Future[Sequence[int]] = self._loop.create_future()
        if self._stopping:
            future.set_exception(Closed("The appender has been closed.", hint="Open the log again."))
            return future
        self._queue.append((records, future))
        if self._idle:
            self._idle = False
            self._wake.release()
        return future

    async def aclose(self) -> None:
        """Wait for what is queued, then stop."""
        self._stopping = True
        self._wake.release()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        while True:
            if not self._queue:
                if self._stopping:
                    return
                self._idle = True
                if not self._queue:  # looked at once more: a caller may have come between the look and the flag
                    self._wake.acquire()
                continue
            waiting = self._take()
            outcome: Sequence[int] | BaseException
            try:
                outcome = self._append(waiting[0][0] if len(waiting) == 1 else [record for records, _ in waiting for record in records])
            except Exception as error:
                if len(waiting) > 1 and getattr(error, "exit_code", 0) == 5:
                    outcomes = [self._alone(records) for records, _ in waiting]  # one caller's bad input is not the others' fault
                    self._answer(waiting, outcomes)
                    continue
                outcome = error
            self._answer(waiting, _shares(waiting, outcome))

    def _take(self) -> list[_Waiting]:
        """Everything that waits, up to half of the largest batch. Removed by count: replacing the list would lose a call made meanwhile."""
        count = size = 0
        for records, _ in self._queue if len(self._queue) > 1 else ():
            for record in records:
                size += 64 + len(record.key or b"") + len(record.value or b"")
            if size > _MOST_BYTES:
                break
            count += 1
        count = count or 1  # a call alone is never too large for this: the log itself says what it does not take
        waiting = self._queue[:count]
        del self._queue[:count]
        return waiting

    def _alone(self, records: Sequence[Record]) -> Sequence[int] | BaseException:
        try:
            return self._append(records)
        except Exception as error:
            return error

    def _answer(self, waiting: list[_Waiting], outcomes: list[Sequence[int] | BaseException]) -> None:
        try:
            self._loop.call_soon_threadsafe(_resolve, waiting, outcomes)  # one wake-up for the whole batch
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


def _shares(waiting: list[_Waiting], outcome: Sequence[int] | BaseException) -> list[Sequence[int] | BaseException]:
    if isinstance(outcome, BaseException):
        return [outcome] * len(waiting)
    shares: list[Sequence[int] | BaseException] = []
    at = 0
    for records, _ in waiting:
        end = at + len(records)
        shares.append(outcome[at:end])
        at = end
    return shares


def _resolve(waiting: list[_Waiting], outcomes: list[Sequence[int] | BaseException]) -> None:
    for (_, future), outcome in zip(waiting, outcomes, strict=True):
        if future.done():
            continue  # the caller has given up; its record is there all the same
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
