"""Learns of a partition's new end, once for all who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

EndOf = Callable[[], Awaitable[int]]


class Watch:
    """Asks for a partition's end at short intervals, and only while somebody waits.

    A thousand streams of one partition cost as much as one. Whatever asking raises, all who wait get.
    """

    def __init__(self, end_of: EndOf, *, pause: float) -> None:
        self._end_of, self._pause = end_of, pause
        self._waiting: set[tuple[int, asyncio.Future[int]]] = set()
        self._asking: asyncio.Task[None] | None = None

    async def beyond(self, offset: int) -> int:
        """The end, as soon as it is greater than `offset`."""
        wish: tuple[int, asyncio.Future[int]] = (offset, asyncio.get_running_loop().create_future())
        self._waiting.add(wish)
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        try:
            return await wish[1]
        finally:
            self._waiting.discard(wish)

    def stop(self, error: Exception) -> None:
        """End every wait with the error."""
        for _, answer in self._waiting:
            if not answer.done():
                answer.set_exception(error)

    async def _ask(self) -> None:
        try:
            while self._waiting:
                end = await self._end_of()
                for offset, answer in self._waiting:
                    if end > offset and not answer.done():
                        answer.set_result(end)
                await asyncio.sleep(self._pause)
        except Exception as error:
            self.stop(error)
        finally:
            self._asking = None
