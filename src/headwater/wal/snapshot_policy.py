"""Decides when an open region stores its state: after a drop, after so many marks, or after so long with something new.

Never for each flush, and never for a call that waits for it. A snapshot takes longer the more tables there are: marks and drops take a
tenth of the time for it at the most, and what they leave out comes with the timer. The timer is set by what is new: a region to which
nothing is written has none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from headwater.core.clock import Clock
from headwater.core.errors import Closed, Fenced, HeadwaterError
from headwater.core.timers import Timer, Timers
from headwater.wal.metrics import WalMetrics
from headwater.wal.region import Region
from headwater.wal.region_meta import RegionChanges
from headwater.wal.region_observer import RegionObserver
from headwater.wal.settings import WalSettings

_logger = logging.getLogger("headwater.wal")
_SHARE = 10  # times as long as a snapshot took, before marks and drops store the next one
_QUICK = 0.1  # seconds: a snapshot that takes less is in nobody's way
_AGAIN = 60.0  # seconds after a failed snapshot, before marks and drops store the next one


class SnapshotPolicy(RegionObserver):
    """Watches one region, from its making to `stop`. Belongs to the event loop of the region."""

    def __init__(self, region: Region, settings: WalSettings, *, timers: Timers, clock: Clock, metrics: WalMetrics) -> None:
        self._region, self._settings, self._timers, self._clock, self._metrics = region, settings, timers, clock, metrics
        self._marks = 0  # since the newest snapshot
        self._not_before = 0.0  # the time from which on marks and drops store one
        self._storing: asyncio.Task[None] | None = None
        self._timer: Timer | None = None  # while there is something new
        self._stopped = False
        self.fenced: Callable[[Region], None] = lambda region: None
        """Is told where another process has taken the region over."""
        region.observer = self
        region.settled.append(self._changed)
        self._set_timer()

    def marked(self) -> None:
        self._marks += 1
        if self._marks >= self._settings.snapshot_marks:
            self._soon()

    def dropped(self) -> None:
        self._soon()

    def stored(self, size: int, seconds: float) -> None:
        self._marks = 0
        self._not_before = self._clock.monotonic() + (_SHARE * seconds if seconds > _QUICK else 0)
        self._metrics.stored(size, seconds)

    async def stop(self) -> None:
        """Store nothing more; wait for what is being stored."""
        self._stopped = True
        if self._changed in self._region.settled:
            self._region.settled.remove(self._changed)
        self._drop_timer()
        if self._storing is not None:
            await asyncio.gather(self._storing, return_exceptions=True)

    @property
    def _behind(self) -> bool:
        """Whether something is new since the newest snapshot."""
        stored = self._region.snapshots
        return self._region.look(lambda meta: meta.watermark) > (stored[-1].watermark if stored else 0)

    def _changed(self, changes: RegionChanges, error: Exception | None) -> None:
        self._arm()  # also for what has failed: it may be in the log nevertheless

    def _arm(self) -> None:
        if self._timer is None and not self._stopped:
            self._timer = self._timers.at(self._clock.now_ms() + self._settings.snapshot_every, self._rings)

    def _set_timer(self) -> None:
        """Have the timer where something is new, and none where nothing is."""
        if self._behind:
            self._arm()
        else:
            self._drop_timer()

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self._timer = None
        if self._behind:
            self._store()

    def _soon(self) -> None:
        if self._clock.monotonic() >= self._not_before:
            self._store()

    def _store(self) -> None:
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._snapshot())

    async def _snapshot(self) -> None:
        """Store a snapshot. Where that fails, the next one may succeed; without any, the next opening only reads more."""
        # First: else each further mark would try again what fails, and leave in the meta topic what it had appended.
        self._marks, self._not_before = 0, self._clock.monotonic() + _AGAIN
        try:
            await self._region.snapshot()
        except Closed:  # the mark was the last call of a region that is being closed
            return
        except HeadwaterError as error:
            _logger.warning("The state of region %s was not stored: %s", self._region.topics, error)
            if isinstance(error, Fenced):
                self.fenced(self._region)
                return
        except Exception:
            _logger.exception("The state of region %s was not stored.", self._region.topics)
        self._set_timer()  # what came meanwhile is stored by the next one, and so is what failed
