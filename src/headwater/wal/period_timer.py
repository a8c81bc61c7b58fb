"""Closes the segments of an open region when their period ends, also where nobody writes: an owner's timer, once a period.

An append closes a segment whose period is over, too. The timer is for regions that stand idle: what was flushed of their active segment
would stay in its file until the next append. Brokers close segments by their own settings, so on Kafka there is nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headwater.core.clock import Clock
from headwater.core.errors import Fenced, HeadwaterError
from headwater.core.period import Calendar, period_end
from headwater.core.timers import Timer, Timers
from headwater.wal.region import Region

_logger = logging.getLogger("headwater.wal")
_SHORTEST = 1000  # milliseconds between two rings, whatever the period: a roll syncs, and a clean stores a snapshot


class PeriodTimer:
    """Watches one region, from its making to `stop`. Belongs to the event loop of the region.

    It rolls once at the beginning: a period may have ended while nobody had the region open. `ended` is called after each later roll.
    """

    def __init__(
        self,
        region: Region,
        period: int | Calendar,
        *,
        ended: Callable[[Region], Awaitable[object]],
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._region, self._period, self._when_ended, self._timers, self._clock = region, period, ended, timers, clock
        self._timer = self._set()
        self.fenced: Callable[[Region], None] = lambda region: None
        """Is told where another process has taken the region over."""
        self._rolling: asyncio.Task[None] = asyncio.create_task(self._roll())

    async def stop(self) -> None:
        """Ring no more; wait for a roll under way. Stopping twice is no error."""
        self._timer.cancel()
        await asyncio.gather(self._rolling, return_exceptions=True)

    def _set(self) -> Timer:
        now = self._clock.now_ms()
        return self._timers.at(max(period_end(self._period, now), now + _SHORTEST), self._ring)

    def _ring(self) -> None:
        self._timer = self._set()
        if self._rolling.done():
            self._rolling = asyncio.create_task(self._roll(self._when_ended))

    async def _roll(self, then: Callable[[Region], Awaitable[object]] | None = None) -> None:
        try:
            await self._region.roll()
            if then is not None:
                await then(self._region)
        except HeadwaterError as error:  # the next append closes the segment, and the next clean removes what is drained
            _logger.warning("A period of region %s has ended, and its log was not rolled and cleaned: %s", self._region.topics, error)
            if isinstance(error, Fenced):
                self.fenced(self._region)
