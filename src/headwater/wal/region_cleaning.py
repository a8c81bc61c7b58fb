"""Cleans open regions, moves what pins their logs above `pin_limit`, and tells what pins them nevertheless."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from headwater.core.errors import UnknownTable
from headwater.log import Log
from headwater.wal.answers import RegionCleaned
from headwater.wal.kept_region import KeptRegion
from headwater.wal.metrics import WalMetrics
from headwater.wal.pin_callbacks import PinCallbacks
from headwater.wal.region import Region
from headwater.wal.region_meta import RegionMeta
from headwater.wal.settings import WalSettings
from headwater.wal.sizes import mean_sizes
from headwater.wal.unpinning import tables_to_move


class RegionCleaning:
    """The cleans of a namespace. Belongs to one event loop."""

    def __init__(self, log: Log, settings: WalSettings, *, metrics: WalMetrics, pins: PinCallbacks) -> None:
        self._log, self._settings, self._metrics, self._pins = log, settings, metrics, pins
        self.cleaned = asyncio.Event()
        """Set, and replaced by a new one, whenever a region was cleaned."""

    async def clean(self, region: Region, known: KeptRegion | None) -> RegionCleaned:
        """Clean a region; above `pin_limit`, move the tables that pin it, and clean it again. `known`: what keeps it, if known."""
        done = await self._counted(self._clean(region, known))
        self.cleaned.set()
        self.cleaned = asyncio.Event()
        return done

    async def clean_changed(self, known: KeptRegion) -> None:
        """Clean a region to which something has come since its last clean: another clean would store the same state once more."""
        if known.region.look(lambda meta: meta.watermark) != known.cleaned:
            await self.clean(known.region, known)

    async def clean_drained(self, region: Region, known: KeptRegion | None) -> None:
        """Clean a region where that removes something."""
        start = (await asyncio.to_thread(self._log.bounds, region.topics.data, 0)).start
        if region.look(lambda meta: meta.safe_offset) > start:
            await self.clean(region, known)

    async def _counted(self, cleaning: Awaitable[RegionCleaned]) -> RegionCleaned:
        try:
            done = await cleaning
        except BaseException:
            self._metrics.cleaned(failed=True)
            raise
        self._metrics.cleaned()
        return done

    async def _clean(self, region: Region, known: KeptRegion | None) -> RegionCleaned:
        seen = region.look(lambda meta: meta.watermark)
        done, moved = await region.clean(), list[int]()
        removed = done.removed
        for table in await self._above_limit(region):
            await self._pins.tell(region)
            try:
                await region.move(table)
            except UnknownTable:  # dropped meanwhile: it pins nothing any more
                continue
            self._metrics.moved()
            moved.append(table)
        if moved:
            seen = region.look(lambda meta: meta.watermark)
            done = await region.clean()
            removed += done.removed
        await self._pins.look(region)
        if known is not None:
            known.mean, known.cleaned = await asyncio.to_thread(mean_sizes, self._log, region.topics.data), seen
        return RegionCleaned(start=done.start, removed=removed, moved=moved)

    async def _above_limit(self, region: Region) -> list[int]:
        """The tables that pin more than `pin_limit` of the log together, and are worth moving."""
        limit = self._settings.pin_limit
        if limit is None:
            return []
        return await asyncio.to_thread(tables_to_move, self._log, region.topics, region.look(RegionMeta.copied), limit)
