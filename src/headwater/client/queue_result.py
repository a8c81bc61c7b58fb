"""What a put has answered, and the result of its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.client.backend import Backend
from headwater.core.errors import BadInput, Timeout
from headwater.queue import operations as ask
from headwater.queue.answers import ShownResult
from headwater.queue.handling import duration_of
from headwater.queue.requests import FindResult
from headwater.queue.values import Outcome, Put

if TYPE_CHECKING:
    from headwater.client.queue import OneQueue

_WAIT = 20_000  # milliseconds that one call waits


class NoResult:
    """The type of `NO_RESULT`."""

    def __repr__(self) -> str:
        return "NO_RESULT"


NO_RESULT: Any = NoResult()
"""A row that is done has no result. None is one: JSON's null."""


class QueuePut:
    """What became of a row that was put, and its result, once it is done."""

    __slots__ = ("_put", "_queue")

    def __init__(self, put: Put, queue: OneQueue) -> None:
        self._put, self._queue = put, queue

    @property
    def id(self) -> int:
        """The id of the row that the put has made or changed; of a stale or ignored put, the id of the row that stays, or was done."""
        return self._put.id

    @property
    def outcome(self) -> Outcome:
        """inserted, merged, follow-up, stale or ignored."""
        return self._put.outcome

    @property
    def process_date(self) -> int:
        """The row's process date by now, in milliseconds since 1970; 0 of an ignored put."""
        return self._put.process_date

    @property
    def raised(self) -> bool:
        """The given process date lay before the insertion date, and was raised to it."""
        return self._put.raised

    @property
    def replayed(self) -> bool:
        """This is the answer to an earlier put with the same idempotency key: nothing has changed now."""
        return self._put.replayed

    async def result(self, *, timeout: str | None = None) -> Any:
        """What the worker of the row has said of it, once it is done. `timeout`: how long to wait, such as "30s"; left out, for ever.

        Errors: `Timeout`; `NotFound` where the row has left no result, is cancelled or expired, or its result is forgotten; `Conflict`
        where it is dead.
        """
        return await self._queue.result(self.id, timeout=timeout)

    def __repr__(self) -> str:
        return f"<QueuePut {self.id} {self.outcome}>"


async def wait_for_result(backend: Backend, queue: str, id: int, timeout: str | None) -> ShownResult:
    """The result of a row, as JSON. Errors: those of `QueuePut.result`."""
    if type(id) is not int or id < 0:
        raise BadInput(f"{id!r:.60} is no id of a row.", hint="Give the id that the put has answered.")
    left = None if timeout is None else duration_of(timeout, "timeout")
    while True:
        wait = _WAIT if left is None else min(left, _WAIT)
        answer = await backend.ask(ask.RESULT, FindResult(queue=queue, id=id, wait=f"{wait}ms"))
        if answer.done:
            return answer
        if left is not None:
            left -= wait
            if left <= 0:
                raise Timeout(f"Row {id} of queue {queue} is not done after {timeout}.", hint="Wait longer, or ask again later.")
