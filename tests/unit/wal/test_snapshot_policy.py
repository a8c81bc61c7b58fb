from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.wal.conftest import OpenRegion
from tests.until import until

from headwater.core.errors import Unavailable
from headwater.core.timers import Timers
from headwater.core.units import Duration
from headwater.testing.clock import ManualClock
from headwater.wal.metrics import WalMetrics
from headwater.wal.recovery import StoredSnapshot
from headwater.wal.region import Region
from headwater.wal.settings import WalSettings
from headwater.wal.snapshot_policy import SnapshotPolicy

pytestmark = pytest.mark.anyio


def kept(region: Region, clock: ManualClock, timers: Timers | None = None) -> SnapshotPolicy:
    settings, timers = WalSettings(snapshot_marks=3, snapshot_every=Duration(60_000)), Timers(clock) if timers is None else timers
    return SnapshotPolicy(region, settings, timers=timers, clock=clock, metrics=WalMetrics())


async def stored(region: Region, count: int) -> None:
    await until(lambda: len(region.snapshots) == count)


async def test_marks_are_counted_and_a_flush_stores_nothing(opened: OpenRegion) -> None:
    region = await opened()
    policy = kept(region, ManualClock())
    await region.write(1, [b"x"] * 9)
    for sequence in (1, 2):
        await region.mark_delete_up_to(1, sequence)
    await region.mark_delete_up_to(1, 1)  # changes nothing
    await policy.stop()
    assert region.snapshots == ()
    await region.mark_delete_up_to(1, 3)
    await stored(region, 1)
    for sequence in (4, 5):
        await region.mark_delete_up_to(1, sequence)
    await policy.stop()
    assert len(region.snapshots) == 1


async def test_time_passes_and_only_what_is_new_is_stored(opened: OpenRegion) -> None:
    region, clock = await opened(), ManualClock()
    policy = kept(region, clock)
    await clock.run(61)
    await policy.stop()
    assert region.snapshots == ()
    policy = kept(region, clock)
    await region.write(1, [b"x"])
    await clock.run(61)
    await stored(region, 1)
    await clock.run(120)
    await policy.stop()
    assert len(region.snapshots) == 1


async def test_a_timer_is_set_by_what_is_new_alone(opened: OpenRegion) -> None:
    """Else every idle region would wake its process once a minute, for ever."""
    region, clock = await opened(), ManualClock()
    timers = Timers(clock)
    policy = kept(region, clock, timers)
    assert not timers
    for count in (1, 2):
        await region.write(1, [b"x"])
        await until(lambda: timers)
        await clock.run(60)
        await stored(region, count)
        await until(lambda: not timers)
    for sequence in range(1, 4):
        await region.write(1, [b"x"])
        await region.mark_delete_up_to(1, sequence)
    await stored(region, 2)  # by marks: nothing is left for the timer
    await until(lambda: region.snapshots[-1].watermark == 8 and not timers)
    await region.write(1, [b"x"])
    await policy.stop()
    assert not timers
    policy = kept(region, clock, timers)  # what an opening has found behind the newest snapshot is new
    assert len(timers) == 1
    await clock.run(60)
    await until(lambda: region.snapshots[-1].watermark == 9 and not timers)
    await policy.stop()


async def test_what_failed_or_came_while_a_snapshot_was_stored_is_stored_later(opened: OpenRegion) -> None:
    region, clock = await opened(), ManualClock()
    timers = Timers(clock)
    policy, store = kept(region, clock, timers), region._snapshots.store

    def refused(values: Sequence[bytes], watermark: int) -> StoredSnapshot:
        raise Unavailable("Not now.", hint="")

    region._snapshots.store = refused  # type: ignore[method-assign]
    await region.write(1, [b"x"])
    await clock.run(60)
    await until(lambda: policy._storing is not None and policy._storing.done())
    assert len(timers) == 1
    region._snapshots.store = store  # type: ignore[method-assign]
    await clock.run(60)
    await stored(region, 1)
    await until(lambda: not timers)
    await policy.stop()


async def test_drops_store_the_state_behind_them_and_not_each_on_its_own(opened: OpenRegion) -> None:
    """A snapshot takes as long as the region has tables: were each drop to store one, dropping all of them would take their square."""
    region, clock = await opened(), ManualClock()
    policy = kept(region, clock)
    for table in range(5):
        await region.write(table, [b"x"])
    await region.drop_table(0)
    await stored(region, 1)
    await policy.stop()
    assert region.snapshots[0].watermark == 6
    policy.stored(1, 2.0)  # as in a region with very many tables
    await region.drop_table(1)
    await clock.run(19)
    await region.drop_table(2)
    await policy.stop()
    assert len(region.snapshots) == 1
    await clock.run(2)
    await region.drop_table(3)
    await stored(region, 2)
    await policy.stop()


async def test_marks_of_a_region_that_takes_long_to_store_wait_for_their_share(opened: OpenRegion) -> None:
    region, clock = await opened(), ManualClock()
    policy = kept(region, clock)
    await region.write(1, [b"x"] * 9)
    policy.stored(1, 3.0)
    for sequence in range(1, 6):
        await region.mark_delete_up_to(1, sequence)
    await policy.stop()
    assert region.snapshots == ()
    await clock.run(31)
    await region.mark_delete_up_to(1, 6)
    await stored(region, 1)
    await policy.stop()


async def test_a_snapshot_that_fails_is_not_tried_again_with_every_mark(opened: OpenRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    region, clock = await opened(), ManualClock()
    policy, tried = kept(region, clock), list[int]()
    await region.write(1, [b"x"] * 40)
    store = region._snapshots.store

    def refused(values: Sequence[bytes], watermark: int) -> StoredSnapshot:
        tried.append(watermark)
        raise Unavailable("Not now.", hint="")

    region._snapshots.store = refused  # type: ignore[method-assign]
    for sequence in range(1, 21):
        await region.mark_delete_up_to(1, sequence)
        if policy._storing is not None:
            await policy._storing
    await region.drop_table(1)
    assert len(tried) == 1
    region._snapshots.store = store  # type: ignore[method-assign]
    await clock.run(60)
    await stored(region, 1)
    await policy.stop()


async def test_a_mark_that_ends_while_its_region_is_closed_is_nothing_to_be_told(
    opened: OpenRegion, caplog: pytest.LogCaptureFixture
) -> None:
    region = await opened()
    policy = kept(region, ManualClock())
    await region.close()
    policy.dropped()
    await policy.stop()
    assert not caplog.records
