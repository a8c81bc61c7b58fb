"""Completes claims with the data that are on the log alone, once the claims are durable.

A row whose data cannot be read is not given out, and not lost: it waits again, a little later. Where the log cannot be reached, that is
all; otherwise it counts as a failure, with its error, so that a row that can never be read ends in the dead list, and does not stay the
first of the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from headwater.core.errors import HeadwaterError, Unavailable
from headwater.queue.answer import RecalledAnswer
from headwater.queue.body import FLAGS, ON_LOG
from headwater.queue.data_place import DataPlace
from headwater.queue.data_reader import DataReader, give_data, held
from headwater.queue.row_view import row_at
from headwater.queue.values import Claimed, ClaimedRow, FailedClaim
from headwater.queue.waiting import Served

if TYPE_CHECKING:
    from headwater.queue.runtime import QueueRuntime

_AGAIN = 1000  # milliseconds until a row whose data could not be read is tried again


def lacks_data(rows: list[ClaimedRow]) -> bool:
    """Whether data of claimed rows are to be read."""
    return any(type(claimed.row.data) is DataPlace for claimed in rows)


class ClaimReader:
    """Completes the claims of a queue."""

    def __init__(self, runtime: QueueRuntime, reader: DataReader) -> None:
        self._runtime, self._reader = runtime, reader
        self._tasks: set[asyncio.Task[Any]] = set()

    def completed(self, answer: RecalledAnswer[Claimed]) -> asyncio.Task[Claimed]:
        """The answer with all data. One that does not reach its caller is recalled."""
        task = self._start(self._complete(answer))
        task.add_done_callback(lambda done: answer.recall() if done.cancelled() else None)
        return task

    def serve(self, served: Served) -> None:
        """Tell claims that have waited of their rows. One whose rows cannot be read waits on."""
        self._start(self._serve(served))

    async def settle(self) -> None:
        """Wait for what is being read."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _complete(self, answer: RecalledAnswer[Claimed]) -> Claimed:
        claimed = await answer.future
        errors = await self._fill(claimed.claims)
        left = [claim for claim in claimed.claims if type(claim.row.data) is not DataPlace]
        if errors and not left:
            raise errors[0]
        claimed.claims[:] = left
        return claimed

    async def _serve(self, served: Served) -> None:
        await self._fill([row for _, rows in served for row in rows])
        complete = [(claim, [row for row in rows if type(row.row.data) is not DataPlace]) for claim, rows in served]
        self._runtime.tell([(claim, rows) for claim, rows in complete if rows])
        if lacking := [claim for claim, rows in complete if not rows]:
            self._runtime.waiting.put_back(lacking)
            self._runtime.set_alarm()
            self._runtime.wake()

    async def _fill(self, rows: list[ClaimedRow]) -> list[HeadwaterError]:
        """Give rows their data; return why some could not be read. A row whose claim no longer counts keeps the place of its data."""
        fold = self._runtime.decisions.fold
        lacking: list[tuple[ClaimedRow, DataPlace]] = []
        for row in rows:
            slot = fold.claims.by_token.get(row.token) if type(row.row.data) is DataPlace else None
            if slot is not None and fold.columns.bodies[slot][FLAGS] & ON_LOG:
                data = row_at(fold, slot).data  # they may have been carried meanwhile
                if type(data) is DataPlace:
                    lacking.append((row, data))
                else:
                    give_data(row.row, data)
        with held(fold, places := [place for _, place in lacking]):
            outcomes = await self._reader.read(places)
        failed: list[tuple[ClaimedRow, HeadwaterError]] = []
        for row, place in lacking:
            data_or_error = outcomes[place]
            if isinstance(data_or_error, HeadwaterError):
                failed.append((row, data_or_error))
            else:
                give_data(row.row, data_or_error)
        self._give_back(failed)
        return [error for _, error in failed]

    def _give_back(self, failed: list[tuple[ClaimedRow, HeadwaterError]]) -> None:
        decisions = self._runtime.begin(self._runtime.now_ms()) if failed else None
        if decisions is not None:
            later = [row.token for row, error in failed if isinstance(error, Unavailable)]
            unreadable = [(row.token, f"The data cannot be read: {error}") for row, error in failed if not isinstance(error, Unavailable)]
            failures = [FailedClaim(token, text, _AGAIN) for token, text in unreadable]
            self._runtime.decide(decisions, lambda made: made.release(later, _AGAIN) + made.fail(failures))
            self._runtime.write(decisions)
