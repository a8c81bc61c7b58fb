"""Opens regions again that a server owned before it was started, where nobody owns them now.

On Kafka whoever a region's calls come to first owns it, so that a server that starts must not simply open them all. It opens those that
it had noted, and that have no owner at two looks, one after the other. Between the two the group notices deaths, also that of this
server's former process, and assigns what somebody has taken over and the group has not yet given to him. So no living owner is fenced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.wal.region_topics import RegionTopics

_logger = logging.getLogger("headwater.wal")
_AT_ONCE = 4  # regions that are opened at the same time
_PAUSE = 15.0  # seconds between two looks: longer than the group takes to notice a death
_LOOKS = 8  # after which the others are left to their owners


class RegionReopening:
    """One start of a server. Belongs to one event loop."""

    def __init__(
        self,
        noted: Sequence[RegionTopics],
        *,
        unowned: Callable[[Sequence[RegionTopics]], Collection[RegionTopics]],
        opened: Callable[[RegionTopics], bool],
        open: Callable[[RegionTopics], Awaitable[object]],
        clock: Clock,
    ) -> None:
        """`unowned`: those of some regions that nobody owns; called in a thread. `opened`: whether this process owns one by now."""
        self._left, self._free = list(noted), set[RegionTopics]()
        self._unowned, self._opened, self._open, self._clock = unowned, opened, open, clock

    async def run(self) -> None:
        """Return once all are open, or are others'."""
        for look in range(_LOOKS):
            self._left = [topics for topics in self._left if not self._opened(topics)]
            if not self._left:
                return
            await self._look()
            if self._left and look + 1 < _LOOKS:
                await self._clock.sleep(_PAUSE)

    async def _look(self) -> None:
        try:
            unowned = set(await asyncio.to_thread(self._unowned, self._left))
        except HeadwaterError as error:  # brokers that do not answer prove nothing
            _logger.warning("Who owns the regions of this server could not be seen: %s", error)
            unowned = set()
        ready = [topics for topics in self._left if topics in unowned and topics in self._free]
        self._free = unowned.difference(ready)
        self._left = [topics for topics in self._left if topics not in ready]
        turns = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._again(topics, turns) for topics in ready))

    async def _again(self, topics: RegionTopics, turns: asyncio.Semaphore) -> None:
        async with turns:
            try:
                await self._open(topics)
            except HeadwaterError as error:
                _logger.warning("Region %s was not opened again, and is opened with its first call: %s", topics, error)
            except Exception:  # such as for too many open files: the others are opened
                _logger.exception("Region %s was not opened again.", topics)
