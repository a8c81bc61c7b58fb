"""Claims that wait for rows in this process: who waits, and how such a wait ends before a row comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headwater.queue.values import Claimed

Release = Callable[[list[str]], None]


class ClaimWaits:
    """The claims under way that may wait, by queue and worker. A row that was claimed for somebody who has left is released at once."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[Claimed], tuple[str, str, asyncio.Future[Claimed]]] = {}

    def begin(self, queue: str, worker: str, claim: asyncio.Future[Claimed], release: Release) -> asyncio.Future[Claimed]:
        """A claim whose answer may be given up: cancelling it ends the wait, and releases what was claimed meanwhile."""
        answer: asyncio.Future[Claimed] = claim.get_loop().create_future()
        self._waiting[answer] = (queue, worker, claim)

        def claimed(claim: asyncio.Future[Claimed]) -> None:
            self._waiting.pop(answer, None)
            if claim.cancelled():
                if not answer.done():
                    answer.set_result(Claimed([], []))
            elif (error := claim.exception()) is not None:
                if not answer.done():
                    answer.set_exception(error)
            elif not answer.done():
                answer.set_result(claim.result())
            elif claim.result().claims:
                release([row.token for row in claim.result().claims])

        def left(answer: asyncio.Future[Claimed]) -> None:
            if answer.cancelled():
                claim.cancel()

        claim.add_done_callback(claimed)
        answer.add_done_callback(left)
        return answer

    def leave(self, queue: str, worker: str) -> None:
        """End the waits of a worker: its claims answer that there is no row."""
        for name, who, claim in list(self._waiting.values()):
            if (name, who) == (queue, worker):
                claim.cancel()

    def end_all(self) -> None:
        """End every wait, as a server does that stops."""
        for _, _, claim in list(self._waiting.values()):
            claim.cancel()
