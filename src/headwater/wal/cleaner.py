"""Cleans the open regions of a namespace again and again. A region that fails never stops the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from random import Random

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.timers import Timer, Timers
from headwater.core.units import Duration

_logger = logging.getLogger("headwater.wal")
_JITTER = 0.1  # of the period, up or down: processes that start together must not clean together for ever
_SOON = 0.1  # of the period, at the most, in which a region is cleaned that was opened after the first pass
_SOON_MS = 60_000


class Cleaner:
    """The loop, from its making to `stop`: a pass over all open regions in each period.

    Once `clean_at_once` was called, there is a pass at once as well, and every region that is opened later has its own first one.
    """

    def __init__(
        self,
        regions: Callable[[], Iterable[int]],
        clean: Callable[[int], Awaitable[object]],
        *,
        period: Duration,
        timers: Timers,
        clock: Clock,
        random: Random,
    ) -> None:
        """`regions`: those that are open now. `clean`: cleans one of them."""
        self._regions, self._clean, self._period = regions, clean, period
        self._timers, self._clock, self._random = timers, clock, random
        self._at_once = self._stopped = False
        self._first: dict[int, Timer] = {}  # of the regions that were opened a moment ago
        self._turn = asyncio.Lock()  # one region at a time
        self._tasks = {asyncio.create_task(self._run())}

    def clean_at_once(self) -> None:
        """Clean what is open now, and what is opened from now on soon after that. Calling it again is no error."""
        if not self._at_once:
            self._at_once = True
            self._begin(self._pass(list(self._regions())))

    def opened(self, region: int) -> None:
        """A region was opened. A pass may lie a whole period ahead: clean it before, at a moment of its own."""
        if not self._at_once or self._stopped:
            return
        if (before := self._first.pop(region, None)) is not None:
            before.cancel()
        most = min(self._period * _SOON, _SOON_MS)

        def due() -> None:
            self._first.pop(region, None)
            self._begin(self._pass([region]))

        self._first[region] = self._timers.at(self._clock.now_ms() + round(self._random.uniform(most / 2, most)), due)

    async def stop(self) -> None:
        """End the loop; a clean under way is finished first. Stopping twice is no error."""
        self._stopped = True
        for timer in self._first.values():
            timer.cancel()
        self._first.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        while True:
            wait = self._period * (1 + self._random.uniform(-_JITTER, _JITTER))
            await self._timers.sleep_until(self._clock.now_ms() + round(wait))
            await self._pass(list(self._regions()))

    async def _pass(self, regions: Iterable[int]) -> None:
        for region in regions:
            async with self._turn:
                await self._one(region)

    async def _one(self, region: int) -> None:
        cleaning = asyncio.ensure_future(self._clean(region))
        try:
            await asyncio.shield(cleaning)
        except asyncio.CancelledError:
            await asyncio.gather(cleaning, return_exceptions=True)
            raise
        except HeadwaterError as error:
            _logger.warning("Region %s was not cleaned: %s", region, error)
        except Exception:
            _logger.exception("Region %s was not cleaned.", region)
