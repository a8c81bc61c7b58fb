from __future__ import annotations

import asyncio

import pytest
from tests.unit.wal.conftest import OpenRegion

from headwater.core.timers import Timers
from headwater.testing.clock import ManualClock
from headwater.wal.kept_region import KeptRegion
from headwater.wal.metrics import WalMetrics
from headwater.wal.settings import WalSettings
from headwater.wal.sizes import MeanSizes
from headwater.wal.snapshot_policy import SnapshotPolicy

pytestmark = pytest.mark.anyio


async def test_a_plain_close_stores_what_the_next_opening_would_read_for_long(opened: OpenRegion) -> None:
    region, clock = await opened(), ManualClock()
    policy = SnapshotPolicy(region, WalSettings(), timers=Timers(clock), clock=clock, metrics=WalMetrics())
    kept = KeptRegion(region, policy, None, MeanSizes(0, 0))
    await asyncio.gather(*(region.write(1, [b"x"]) for _ in range(999)))
    assert not kept.worth_storing()
    await region.write(1, [b"x"])
    assert kept.worth_storing()
    await region.snapshot()
    assert not kept.worth_storing()
    for _ in range(2):
        await kept.stop()
