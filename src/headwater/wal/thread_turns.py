"""One piece of blocking work at a time, each in a thread: snapshots, cleans and rolls of a region."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadTurns:
    """Turns of threads. Belongs to one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        """Held during a turn: who holds it keeps others out."""

    async def take(self, work: Callable[[], T], *, first: Callable[[], None]) -> T:
        """What `work` returns, in a thread. `first`: is called by the loop when the turn has come, and may raise instead.

        A caller that gives up does not stop the thread. Its turn ends with the thread all the same: two of them would mix the chunks of
        their snapshots, and each would remove what the other has just stored.
        """
        await self.lock.acquire()
        try:
            first()
            working = asyncio.ensure_future(asyncio.to_thread(work))
        except BaseException:
            self.lock.release()
            raise
        working.add_done_callback(self._end)
        return await asyncio.shield(working)

    def _end(self, working: asyncio.Future[Any]) -> None:
        self.lock.release()
        if not working.cancelled():
            working.exception()  # where the caller has given up, nobody else looks at it
