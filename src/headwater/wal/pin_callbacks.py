"""Tells users which table pins the log of their region: before it is moved because of `pin_limit`, and where nothing moves it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headwater.core.errors import HeadwaterError
from headwater.log import Log
from headwater.wal.answers import PinnedLog
from headwater.wal.region import Region
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics, region_owner
from headwater.wal.unpinning import HeldLog, held_log
from headwater.wal.why import pins_of, why

_logger = logging.getLogger("headwater.wal")
OnPin = Callable[[PinnedLog], None]


class PinCallbacks:
    """The callback of a namespace, and one for each region. The event loop calls them; what they raise is logged."""

    def __init__(self, log: Log, all_regions: OnPin | None = None) -> None:
        self._log, self._all = log, all_regions
        self._of_region: dict[int, OnPin] = {}
        self._told: dict[int, HeldLog] = {}  # by region: what was held when `look` told it
        self._latest: dict[int, PinnedLog] = {}

    def latest(self, region: int) -> PinnedLog | None:
        """What was told last of a region."""
        return self._latest.get(region)

    def set(self, region: int, on_pin: OnPin) -> None:
        """Call `on_pin` for one region. The newest one counts."""
        self._of_region[region] = on_pin
        self._told.pop(region, None)

    def forget(self, region: int) -> None:
        """Call none for this region any more."""
        self._of_region.pop(region, None)
        self._told.pop(region, None)
        self._latest.pop(region, None)

    async def look(self, region: Region) -> None:
        """Tell what pins the log where that holds more than a segment that no table needs: once for each table that pins it, and again
        whenever so much more is held. A region of another part is its owner's care."""
        topics = region.topics
        if region_owner(topics.namespace):
            return
        try:
            held, segment = await asyncio.to_thread(self._held, topics, region.look(RegionMeta.copied))
            before = self._told.get(topics.region)
            if held is None or held.bytes <= segment:
                self._told.pop(topics.region, None)
            elif before is None or held.table != before.table or held.bytes >= 2 * before.bytes:
                self._told[topics.region] = held
                await self.tell(region)
        except HeadwaterError as error:
            _logger.warning("What pins the log of region %s could not be told: %s", topics, error)

    def _held(self, topics: RegionTopics, meta: RegionMeta) -> tuple[HeldLog | None, int]:
        return held_log(self._log, topics, meta), self._log.topic(topics.data).settings.segment

    async def tell(self, region: Region) -> None:
        """Call them with what pins the log now. Errors: `Damaged`."""
        pinned_log = await asyncio.to_thread(why, self._log, region.topics, region.look(pins_of))
        if pinned_log.table is None:  # flushed meanwhile
            return
        self._latest[region.topics.region] = pinned_log
        for call in (self._all, self._of_region.get(region.topics.region)):
            if call is None:
                continue
            try:
                call(pinned_log)
            except Exception:
                _logger.exception("The callback for pins of region %s has failed.", region.topics)
