"""Group commit: calls that queue up during a sync become the next batch, so that many asyncio callers share one sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import accumulate

from headwater.core.errors import BadInput, Closed, HeadwaterError, OutcomeUnknown, Unavailable
from headwater.log.commit_thread import MOST_BYTES, CommitThread
from headwater.log.record import Record

_Waiting = tuple[Sequence[Record], "asyncio.Future[Sequence[int]]"]
_Outcome = Sequence[int] | BaseException


class Appender(CommitThread[_Waiting]):
    """Group commit for one partition, from one event loop. Works with any `append`: a Log's or a Writer's.

    `append` returns once its records are durable, with their offsets; the records of one call stay together and in order. It never waits
    for more calls: a batch holds the calls that came during the previous sync. When a batch fails, all its callers get the error.
    """

    def __init__(
        self,
        append: Callable[[Sequence[Record]], Sequence[int]],
        *,
        inline: Callable[[Sequence[Record]], Sequence[int] | None] | None = None,
        name: str = "log",
    ) -> None:
        """`inline`: appends in the caller's thread, or returns None, as `Log.append_inline`."""
        self._append, self._inline = append, inline
        super().__init__(name=name)

    def append(self, records: Sequence[Record]) -> asyncio.Future[Sequence[int]]:
        """Errors: those of `Log.append`, for the whole batch that holds these records; `Closed`."""
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
            self._rouse()
        return future

    def append_inline(self, records: Sequence[Record]) -> Sequence[int] | None:
        """Append at once and in this thread; None, and nothing was done, where that would wait. Never overtakes a queued call.

        Errors: those of `Log.append`.
        """
        if self._inline is None or self._queue or not self._idle or self._stopping:
            return None
        return self._inline(records)

    def _commit(self) -> None:
        waiting, batch = self._take()
        self._tell(_resolve, waiting, self._outcomes(waiting, batch))

    def _outcomes(self, waiting: list[_Waiting], batch: Sequence[Record]) -> list[_Outcome]:
        """Append the batch; return the outcome for each of its callers."""
        try:
            offsets = self._append(batch)
        except Exception as error:
            if len(waiting) > 1 and getattr(error, "exit_code", 0) == 5:
                # one caller's bad input must not fail the others: append each call alone
                return [self._alone(records) for records, _ in waiting]
            return [error] * len(waiting)
        return _shares(waiting, offsets)

    def _take(self) -> tuple[list[_Waiting], Sequence[Record]]:
        """Take all queued calls, up to half of the largest batch, and their records."""
        waiting = self._queue[:]
        if len(waiting) == 1:  # at least one call: the log itself refuses one that is too large
            batch = waiting[0][0]
        else:
            try:
                batch = [record for records, _ in waiting for record in records]
                if _size(batch) > MOST_BYTES:
                    waiting = _fitting(waiting)
                    batch = [record for records, _ in waiting for record in records]
            except Exception:  # not records: the log raises for this call, and the thread goes on
                waiting = waiting[:1]
                batch = waiting[0][0]
        del self._queue[: len(waiting)]
        return waiting, batch

    def _alone(self, records: Sequence[Record]) -> _Outcome:
        try:
            return self._append(records)
        except Exception as error:
            return error


class OrderedAppender(Appender):
    """Group commit for calls that build on each other, such as those of an owner that numbers what it appends.

    An invalid call fails alone and at once: `append` raises before it queues anything, so that its caller has nothing to undo. Queued calls
    go out in order, or not at all: when a batch fails, all queued calls after it fail untried, and so does every later call. Then the owner
    claims the partition again, reads its end, and makes another appender: so no record numbered after a lost one comes into the log.

    `check` is called with the records of each call, and raises for those that `append` would refuse, as `encode` and Kafka's engine do: a
    call that it lets pass, and that is refused all the same, takes those behind it along.
    """

    def __init__(
        self, append: Callable[[Sequence[Record]], Sequence[int]], *, check: Callable[[Sequence[Record]], object], name: str = "log"
    ) -> None:
        self._check = check
        self.failure: Exception | None = None  # the failure that stopped it
        super().__init__(append, name=name)

    def append(self, records: Sequence[Record]) -> asyncio.Future[Sequence[int]]:
        """Raises `BadInput`, `TooLarge` and whatever else `check` raises, `Closed`, and the failure before: nothing was queued.

        Errors of the future: those of `Log.append` for the batch that these records travelled in, after which they may be there if it is
        `OutcomeUnknown`; the failure of a batch before them, after which they are not.
        """
        if self.failure is not None:
            raise not_tried(self.failure)
        if self._stopping:
            raise Closed("The appender has been closed.", hint="Open the log again.")
        self._check(records)
        return super().append(records)

    def _outcomes(self, waiting: list[_Waiting], batch: Sequence[Record]) -> list[_Outcome]:
        if self.failure is not None:  # queued after it, or at the moment of its failure
            return [not_tried(self.failure)] * len(waiting)
        try:
            offsets = self._append(batch)
        except Exception as error:
            self.failure = error
            return [error] * len(waiting)
        return _shares(waiting, offsets)


def not_tried(failure: Exception, hint: str = "Read the end of the partition, then append them again through a new appender.") -> Exception:
    """The error of calls queued after a failed batch. Their records were certainly not appended. `hint`: what to do."""
    if isinstance(failure, HeadwaterError) and not isinstance(failure, OutcomeUnknown):
        return failure
    error = Unavailable(
        f"These records were not appended, because an append before them failed: {failure}",
        hint=hint,
    )
    error.__cause__ = failure
    return error


def _size(records: Sequence[Record]) -> int:
    """About how many bytes the records take."""
    keys = [record.key for record in records if record.key is not None]
    values = [record.value for record in records if record.value is not None]
    headers = [8 + 4 * len(name) + len(value or b"") for record in records if record.headers for name, value in record.headers]
    return 64 * len(records) + sum(map(len, keys)) + sum(map(len, values)) + sum(headers)


def _fitting(waiting: list[_Waiting]) -> list[_Waiting]:
    """As many calls as fit, and at least one."""
    count = size = 0
    for records, _ in waiting:
        size += _size(records)
        if size > MOST_BYTES:
            break
        count += 1
    return waiting[: count or 1]


def _shares(waiting: list[_Waiting], offsets: Sequence[int]) -> list[_Outcome]:
    counts = [len(records) for records, _ in waiting]
    if isinstance(offsets, range) and counts.count(1) == len(counts):  # one record each, which is the rule
        return [range(offset, offset + 1) for offset in offsets]
    return [offsets[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]


def _resolve(waiting: list[_Waiting], outcomes: list[_Outcome]) -> None:
    for (_, future), outcome in zip(waiting, outcomes, strict=True):
        try:
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        except asyncio.InvalidStateError:
            continue  # the caller has given up; its record is appended nevertheless
