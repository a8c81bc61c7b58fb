"""Decides when an open region stores its state: after so many marks, or after so long with something new. Never for each flush."""

from __future__ import annotations

import asyncio
import logging

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.timers import Timer, Timers
from headwater.wal.metrics import WalMetrics
from headwater.wal.region import Region
from headwater.wal.region_observer import RegionObserver
from headwater.wal.settings import WalSettings

_logger = logging.getLogger("headwater.wal")


class SnapshotPolicy(RegionObserver):
    """Watches one region, from its making to `stop`. Belongs to the event loop of the region."""

    def __init__(self, region: Region, settings: WalSettings, *, timers: Timers, clock: Clock, metrics: WalMetrics) -> None:
        self._region, self._settings, self._timers, self._clock, self._metrics = region, settings, timers, clock, metrics
        self._marks = 0  # since the newest snapshot
        self._storing: asyncio.Task[None] | None = None
        self._timer: Timer = self._set()
        region.observer = self

    def marked(self) -> None:
        self._marks += 1
        if self._marks >= self._settings.snapshot_marks:
            self._store()

    def stored(self, size: int, seconds: float) -> None:
        self._marks = 0
        self._metrics.stored(size, seconds)

    async def stop(self) -> None:
        """Store nothing more; wait for what is being stored."""
        self._timer.cancel()
        if self._storing is not None:
            await asyncio.gather(self._storing, return_exceptions=True)

    def _set(self) -> Timer:
        return self._timers.at(self._clock.now_ms() + self._settings.snapshot_every, self._rings)

    def _rings(self) -> None:
        self._timer = self._set()
        stored = self._region.snapshots
        if self._region.look(lambda meta: meta.watermark) > (stored[-1].watermark if stored else 0):
            self._store()

    def _store(self) -> None:
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._snapshot())

    async def _snapshot(self) -> None:
        try:
            await self._region.snapshot()
        except HeadwaterError as error:  # the next one may succeed; without any, the next opening only reads more
            _logger.warning("The state of region %s was not stored: %s", self._region.topics, error)
