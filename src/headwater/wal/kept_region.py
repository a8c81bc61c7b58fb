"""An open region of a manager, and what looks after it."""

from __future__ import annotations

from headwater.wal.period_timer import PeriodTimer
from headwater.wal.region import Region
from headwater.wal.sizes import MeanSizes
from headwater.wal.snapshot_policy import SnapshotPolicy

_UNSTORED = 1000  # records behind the newest snapshot, from which on also a plain close stores one


class KeptRegion:
    """A region with its snapshots' policy, the timer of its period, and the mean sizes for the estimates of the metrics."""

    def __init__(self, region: Region, policy: SnapshotPolicy, timer: PeriodTimer | None, mean: MeanSizes) -> None:
        self.region, self.policy, self.timer, self.mean = region, policy, timer, mean
        self.cleaned = -1
        """The watermark as of its last clean here; -1 before the first one."""

    async def stop(self) -> None:
        """Look after it no more; wait for what is under way. Stopping twice is no error."""
        try:
            await self.policy.stop()
        finally:
            if self.timer is not None:
                await self.timer.stop()

    def worth_storing(self) -> bool:
        """Whether so much lies behind the newest snapshot that also a plain close stores one. Blocking."""
        stored = self.region.snapshots
        behind = self.region.look(lambda meta: meta.watermark) - (stored[-1].watermark if stored else 0)
        return behind >= _UNSTORED and not self.region.lost
