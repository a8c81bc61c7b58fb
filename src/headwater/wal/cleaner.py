"""Cleans the open regions of a namespace again and again. A region that fails never stops the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from random import Random

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.timers import Timers
from headwater.core.units import Duration

_logger = logging.getLogger("headwater.wal")
_JITTER = 0.1  # of the period, up or down: processes that start together must not clean together for ever


class Cleaner:
    """The loop, from its making to `stop`. The first pass comes at once, or after a period; each next one a period after the one before."""

    def __init__(
        self,
        regions: Callable[[], Iterable[int]],
        clean: Callable[[int], Awaitable[object]],
        *,
        period: Duration,
        timers: Timers,
        clock: Clock,
        random: Random,
        at_once: bool = True,
    ) -> None:
        """`regions`: those that are open now. `clean`: cleans one of them."""
        self._at_once = at_once
        self._regions, self._clean, self._period = regions, clean, period
        self._timers, self._clock, self._random = timers, clock, random
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the loop; a clean under way is finished first. Stopping twice is no error."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        if not self._at_once:
            await self._wait()
        while True:
            for region in list(self._regions()):
                await self._one(region)
            await self._wait()

    async def _wait(self) -> None:
        wait = self._period * (1 + self._random.uniform(-_JITTER, _JITTER))
        await self._timers.sleep_until(self._clock.now_ms() + round(wait))

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
