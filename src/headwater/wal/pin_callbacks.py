"""Tells users which table pins the log of their region, before it is moved because of `pin_limit`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headwater.log import Log
from headwater.wal.answers import PinnedLog
from headwater.wal.region import Region
from headwater.wal.why import pins_of, why

_logger = logging.getLogger("headwater.wal")
OnPin = Callable[[PinnedLog], None]


class PinCallbacks:
    """The callback of a namespace, and one for each region. The event loop calls them; what they raise is logged."""

    def __init__(self, log: Log, all_regions: OnPin | None = None) -> None:
        self._log, self._all = log, all_regions
        self._of_region: dict[int, OnPin] = {}

    def set(self, region: int, on_pin: OnPin) -> None:
        """Call `on_pin` for one region. The newest one counts."""
        self._of_region[region] = on_pin

    def forget(self, region: int) -> None:
        """Call none for this region any more."""
        self._of_region.pop(region, None)

    async def tell(self, region: Region) -> None:
        """Call them with what pins the log now. Errors: `Damaged`."""
        told = [call for call in (self._all, self._of_region.get(region.topics.region)) if call is not None]
        if not told:
            return
        found = await asyncio.to_thread(why, self._log, region.topics, region.look(pins_of))
        for call in told:
            try:
                call(found)
            except Exception:
                _logger.exception("The callback for pins of region %s has failed.", region.topics)
