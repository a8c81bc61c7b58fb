from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core import date_alarm
from headwater.core.errors import Unsupported
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.region_topics import region_topics
from headwater.wal.settings import RegionSettings, WalSettings

pytestmark = pytest.mark.anyio
DATA = region_topics("wal", 7).data
NOON = 1_699_963_200.0  # 2023-11-14T12:00Z
HALF_HOUR, DAY = 1800, 86_400


class Ground:
    """A namespace over an embedded log, on a clock that is moved by hand."""

    def __init__(self, path: Path) -> None:
        self.clock, self.folder = ManualClock(NOON), path / "log" / DATA / "0"
        self.log = EmbeddedLog(path, clock=self.clock)
        self.owners = LocalOwnership(self.log, path / "owners")
        self.made: list[RegionManager] = []

    def manager(self) -> RegionManager:
        how = WalSettings()
        made = RegionManager(self.log, lambda: self.owners, "wal", settings=how, clock=self.clock, random=Random(1), metrics=WalMetrics())
        self.made.append(made)
        return made

    def segments(self) -> list[int]:
        """The first offsets of the segments that are there."""
        return sorted(int(path.stem.partition("-")[0]) for path in self.folder.glob("*.log"))

    async def passes(self, seconds: float) -> None:
        """So much time, and all that its timers have begun."""
        await self.clock.run(seconds)
        for made in self.made:
            for known in made._open.values():
                assert known.timer is not None
                await asyncio.gather(known.timer._rolling)


@pytest.fixture
async def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ground]:
    monkeypatch.setattr(date_alarm, "LONGEST_S", HALF_HOUR)  # to look at the clock in every second of a day takes seconds
    made = Ground(tmp_path)
    yield made
    for one in made.made:
        await one.aclose()
    made.owners.close()
    made.log.close()


async def test_a_segment_is_closed_when_its_period_ends_although_nobody_writes(ground: Ground) -> None:
    wal = ground.manager()
    region = await wal.open(7, create=RegionSettings(period="hour"))
    await region.write(1, [b"a", b"b"])
    await ground.passes(HALF_HOUR)
    assert ground.segments() == [0]
    await ground.passes(HALF_HOUR)
    assert ground.segments() == [0, 1]
    await ground.passes(5 * 2 * HALF_HOUR)
    assert ground.segments() == [0, 1]  # an empty one stays


async def test_a_drained_active_segment_goes_when_its_period_ends(ground: Ground) -> None:
    wal = ground.manager()
    region = await wal.open(7, create=RegionSettings(period="day"))
    await region.write(1, [b"a", b"b"])
    await region.mark_delete_up_to(1, 2)
    await ground.passes(DAY / 2)
    assert ground.segments() == [2]
    assert ground.log.bounds(DATA, 0).start == 2
    assert region.sequence_num(1) == 2


async def test_a_period_that_ended_while_nobody_had_it_open_ends_at_the_opening(ground: Ground) -> None:
    wal = ground.manager()
    region = await wal.open(7, create=RegionSettings(period="hour"))
    await region.write(1, [b"a"])
    await wal.close(7)
    await wal.open(7)
    await ground.passes(0)
    assert ground.segments() == [0]  # opening it twice in a period makes no second segment
    await wal.close(7)
    ground.clock.advance(DAY)
    await wal.open(7)
    await ground.passes(0)
    assert ground.segments() == [0, 1]


async def test_a_segment_that_an_append_has_rolled_is_not_rolled_again(ground: Ground) -> None:
    wal = ground.manager()
    region = await wal.open(7, create=RegionSettings(period="hour"))
    await region.write(1, [b"a"])
    ground.clock.advance(2 * HALF_HOUR)  # the timer's turn comes behind this append
    await region.write(1, [b"b"])
    await ground.passes(HALF_HOUR)
    assert ground.segments() == [0, 1]


async def test_a_closed_region_rings_no_more(ground: Ground) -> None:
    wal = ground.manager()
    await wal.open(7, create=RegionSettings(period="hour"))
    known = wal._open[7]
    await wal.close(7)
    assert known.timer is not None
    await known.timer.stop()
    await ground.clock.run(DAY)
    assert ground.segments() == [0]


async def test_a_roll_that_fails_is_told_and_tried_at_the_next_end(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wal = ground.manager()
    region = await wal.open(7, create=RegionSettings(period="hour"))
    await region.write(1, [b"a"])

    async def refused() -> int:
        raise Unsupported("Not now.", hint="Wait.")

    with monkeypatch.context() as patched:
        patched.setattr(region, "roll", refused)
        await ground.passes(2 * HALF_HOUR)
    assert "period of region wal/7 has ended" in caplog.text
    assert ground.segments() == [0]
    await ground.passes(2 * HALF_HOUR)
    assert ground.segments() == [0, 1]
