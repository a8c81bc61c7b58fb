"""Notices that any process has changed the catalogue, without asking again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headwater.core.errors import HeadwaterError
from headwater.log import Log, Watching

_logger = logging.getLogger("headwater.queue")


class CatalogueWatch:
    """Calls `changed` after each change of the catalogue, one call at a time, from its making to `stop`. Belongs to one event loop."""

    def __init__(self, log: Log, topic: str, changed: Callable[[], Awaitable[None]]) -> None:
        """`topic`: that of the catalogue."""
        self._changed, self._loop = changed, asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._task = asyncio.create_task(self._run(log, topic))

    async def stop(self) -> None:
        """End; a call under way is finished first. Stopping twice is no error."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, log: Log, topic: str) -> None:
        watching = await asyncio.to_thread(log.watch, topic, 0, self._ring)
        try:
            await self._look()  # what was changed before the watch began
            while True:
                await self._rung.wait()
                self._rung.clear()
                await self._look()
                if await asyncio.to_thread(_ended, watching):
                    return
        finally:
            watching.close()

    async def _look(self) -> None:
        call = asyncio.ensure_future(self._changed())
        try:
            await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.gather(call, return_exceptions=True)
            raise
        except HeadwaterError as error:  # the next change is looked at again
            _logger.warning("A change of the catalogue of queues was not seen: %s", error)

    def _ring(self) -> None:
        """Called in a thread of the log."""
        try:
            self._loop.call_soon_threadsafe(self._rung.set)
        except RuntimeError:  # the loop has ended
            return


def _ended(watching: Watching) -> bool:
    """Whether no more changes will come: the catalogue was deleted, or the log is closed."""
    try:
        watching.end()
        return False
    except HeadwaterError:
        return True
