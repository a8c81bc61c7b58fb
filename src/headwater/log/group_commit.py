"""Many asyncio callers, one sync: whatever queued up while the disk was busy goes out as the next batch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from queue import SimpleQueue

from headwater.core.errors import BadInput, Closed
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
        self._future = self._loop.create_future
        self._queue: list[_Waiting] = []
        self._wake: SimpleQueue[None] = SimpleQueue()  # written in C: a Semaphore's own steps take longer than the wake-up
        self._idle = True
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"headwater-append-{name}", daemon=True)
        self._thread.start()

    def append(self, records: Sequence[Record]) -> asyncio.Future[Sequence[int]]:
        """Errors: those of `Log.append`, for the whole batch that these records travelled in; `Closed`."""
        future: asyncio.Future[Sequence[int]] = self._future()
        if self._stopping:
            future.set_exception(Closed("The appender has been closed.", hint="Open the log again."))
            return future
        try:
            len(records)
        except TypeError:
            future.set_exception(BadInput("An append takes a sequence of records.", hint="Give a list of `Record`."))
            return future
        self._queue.append((records, future))
        if self._idle:
            self._idle = False
            self._wake.put(None)
        return future

    async def aclose(self) -> None:
        """Wait for what is queued, then stop."""
        self._stopping = True
        self._wake.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        while True:
            if not self._queue:
                if self._stopping:
                    return
                self._idle = True
                if not self._queue:  # looked at once more: a caller may have come between the look and the flag
                    self._wake.get()
                continue
            waiting, batch = self._take()
            outcome: Sequence[int] | BaseException
            try:
                outcome = self._append(batch)
            except Exception as error:
                if len(waiting) > 1 and getattr(error, "exit_code", 0) == 5:
                    outcomes = [self._alone(records) for records, _ in waiting]  # one caller's bad input is not the others' fault
                    self._answer(waiting, outcomes)
                    continue
                outcome = error
            self._answer(waiting, _shares(waiting, outcome))

    def _take(self) -> tuple[list[_Waiting], Sequence[Record]]:
        """Everything that waits, up to half of the largest batch, and its records.

        Removed by count: replacing the list would lose a call made meanwhile.
        """
        waiting = self._queue[:]
        if len(waiting) == 1:  # never too large for this: the log itself says what it does not take
            batch = waiting[0][0]
        else:
            try:
                batch = [record for records, _ in waiting for record in records]
                if _size(batch) > _MOST_BYTES:
                    waiting = _fitting(waiting)
                    batch = [record for records, _ in waiting for record in records]
            except Exception:  # no records: the log tells their caller, and the thread that serves everybody goes on
                waiting = waiting[:1]
                batch = waiting[0][0]
        del self._queue[: len(waiting)]
        return waiting, batch

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


def _size(records: Sequence[Record]) -> int:
    """About how many bytes the records take."""
    keys = [record.key for record in records if record.key is not None]
    values = [record.value for record in records if record.value is not None]
    return 64 * len(records) + sum(map(len, keys)) + sum(map(len, values))


def _fitting(waiting: list[_Waiting]) -> list[_Waiting]:
    """As many calls as fit, and at least one."""
    count = size = 0
    for records, _ in waiting:
        size += _size(records)
        if size > _MOST_BYTES:
            break
        count += 1
    return waiting[: count or 1]


def _shares(waiting: list[_Waiting], outcome: Sequence[int] | BaseException) -> list[Sequence[int] | BaseException]:
    if isinstance(outcome, BaseException):
        return [outcome] * len(waiting)
    counts = [len(records) for records, _ in waiting]
    if isinstance(outcome, range) and counts.count(1) == len(counts):  # one record each, which is the rule
        return [range(offset, offset + 1) for offset in outcome]
    return [outcome[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]


def _resolve(waiting: list[_Waiting], outcomes: list[Sequence[int] | BaseException]) -> None:
    for (_, future), outcome in zip(waiting, outcomes, strict=True):
        try:
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        except asyncio.InvalidStateError:
            continue  # the caller has given up; its record is there all the same
