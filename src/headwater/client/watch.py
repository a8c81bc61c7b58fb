"""Waits for a partition's new end, once for all its followers on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from headwater.core.errors import HeadwaterError
from headwater.log import Watching

Open = Callable[[Callable[[], None]], Awaitable[Watching]]


class Watch:
    """Each follower enters it: it watches the partition from the first follower's entry to the last one's exit.

    A thousand followers cost one call from the log's thread for each batch, and nothing while none comes. `opening` starts the watch; it
    gets the function to call when the end has moved. An error of the watch goes to all followers.
    """

    def __init__(self, opening: Open) -> None:
        self._opening = opening
        self._loop = asyncio.get_running_loop()
        self._followers = 0
        self._opened: asyncio.Task[Watching] | None = None
        self._watching: Watching | None = None
        self._waiting: set[tuple[int, asyncio.Future[int]]] = set()
        self._scheduled = False
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        """Errors: what `opening` raises."""
        self._followers += 1
        try:
            if self._opened is None:
                self._opened = asyncio.create_task(self._open())
                self._opened.add_done_callback(lambda late: late.cancelled() or late.exception())  # its followers may have left
            await asyncio.shield(self._opened)
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._leave()

    @property
    def over(self) -> bool:
        """The watch has ended: a new follower needs another one."""
        return not self._followers or self._error is not None

    def end(self) -> int:
        """The partition's end. Errors: those of `Watching.end`."""
        if self._error is not None:
            raise self._error
        assert self._watching is not None, "a watch is entered before it is asked"
        try:
            return self._watching.end()
        except HeadwaterError as error:
            self.stop(error)
            raise

    async def beyond(self, offset: int) -> int:
        """The end, as soon as it is greater than `offset`."""
        wish: tuple[int, asyncio.Future[int]] = (offset, self._loop.create_future())
        self._waiting.add(wish)  # before the check: a later change sets the future
        try:
            end = self.end()
            return end if end > offset else await wish[1]
        finally:
            self._waiting.discard(wish)

    def stop(self, error: Exception) -> None:
        """End all waits, present and later, with the error."""
        self._error = error
        for _, answer in self._waiting:
            if not answer.done():
                answer.set_exception(error)

    async def _open(self) -> Watching:
        watching = await self._opening(self._changed)
        if self._followers and self._watching is None:
            self._watching = watching
        else:  # all followers left during the opening, and perhaps others have come
            watching.close()
        return watching

    def _leave(self) -> None:
        self._followers -= 1
        if not self._followers:
            self._opened = None
            if self._watching is not None:
                self._watching.close()
                self._watching = None

    def _changed(self) -> None:
        """Called by the log's thread. Schedules at most one call on the loop at a time."""
        if not self._scheduled:
            self._scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

    def _tell(self) -> None:
        self._scheduled = False  # before the check: a later change schedules another call
        if self._watching is None:
            return
        try:
            end = self.end()
        except HeadwaterError:
            return  # all waiting followers have got it
        for offset, answer in self._waiting:
            if end > offset and not answer.done():
                answer.set_result(end)
