from __future__ import annotations

import pytest
from tests.unit.wal.conftest import OpenRegion

from headwater.core.errors import Unavailable
from headwater.core.timers import Timers
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock
from headwater.wal.answers import RegionCleaned
from headwater.wal.kept_region import KeptRegion
from headwater.wal.metrics import WalMetrics
from headwater.wal.pin_callbacks import PinCallbacks
from headwater.wal.region import Region
from headwater.wal.region_cleaning import RegionCleaning
from headwater.wal.settings import WalSettings
from headwater.wal.sizes import MeanSizes
from headwater.wal.snapshot_policy import SnapshotPolicy

pytestmark = pytest.mark.anyio


def cleaning(log: EmbeddedLog) -> RegionCleaning:
    return RegionCleaning(log, WalSettings(), metrics=WalMetrics(), pins=PinCallbacks(log))


def kept(region: Region) -> KeptRegion:
    clock = ManualClock()
    policy = SnapshotPolicy(region, WalSettings(), timers=Timers(clock), clock=clock, metrics=WalMetrics())
    return KeptRegion(region, policy, None, MeanSizes(0.0, 0.0))


async def test_a_pass_cleans_what_has_changed_since_the_last_one(opened: OpenRegion, log: EmbeddedLog) -> None:
    region, wal = await opened(), cleaning(log)
    known = kept(region)
    for written in (0, 1):
        for _ in range(2):
            await wal.clean_changed(known)
        assert region.snapshots[-1].last == written
        await region.write(1, [b"x"])
    assert known.mean.payload > 0
    await known.stop()


async def test_a_clean_that_fails_is_made_again_by_the_next_pass(
    opened: OpenRegion, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    region, wal = await opened(), cleaning(log)
    known, clean = kept(region), region.clean

    async def refused() -> RegionCleaned:
        raise Unavailable("Not now.", hint="")

    monkeypatch.setattr(region, "clean", refused)
    with pytest.raises(Unavailable):
        await wal.clean_changed(known)
    monkeypatch.setattr(region, "clean", clean)
    await wal.clean_changed(known)
    assert len(region.snapshots) == 1
    await known.stop()


async def test_where_nothing_is_drained_the_end_of_a_period_stores_nothing(opened: OpenRegion, log: EmbeddedLog) -> None:
    region, wal = await opened(), cleaning(log)
    await region.write(1, [b"x"])
    await wal.clean_drained(region, None)
    assert not region.snapshots
    await region.mark_delete_up_to(1, 1)
    await wal.clean_drained(region, None)
    assert region.snapshots
