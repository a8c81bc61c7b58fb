from __future__ import annotations

import asyncio
from random import Random

import pytest

from headwater.core.errors import Unavailable
from headwater.core.timers import Timers
from headwater.core.units import Duration
from headwater.testing.clock import ManualClock
from headwater.wal.cleaner import Cleaner

pytestmark = pytest.mark.anyio


async def test_the_first_pass_comes_at_once_and_no_failure_stops_the_others() -> None:
    clock, seen = ManualClock(), list[int]()

    async def clean(region: int) -> None:
        seen.append(region)
        if region == 2:
            raise Unavailable("Not now.", hint="")
        if region == 3:
            raise ZeroDivisionError

    cleaner = Cleaner(lambda: [2, 3, 4], clean, period=Duration(60_000), timers=Timers(clock), clock=clock, random=Random(3))
    cleaner.clean_at_once()
    cleaner.clean_at_once()
    await clock.run(0)
    assert seen == [2, 3, 4]
    await clock.run(53.9)  # the jitter is a tenth
    assert seen == [2, 3, 4]
    await clock.run(12.2)
    assert seen == [2, 3, 4] * 2
    await cleaner.stop()
    await cleaner.stop()
    await clock.run(600)
    assert seen == [2, 3, 4] * 2


async def test_the_first_pass_may_come_after_a_period() -> None:
    clock, seen = ManualClock(), list[int]()

    async def clean(region: int) -> None:
        seen.append(region)

    cleaner = Cleaner(lambda: [1], clean, period=Duration(60_000), timers=Timers(clock), clock=clock, random=Random(3))
    cleaner.opened(1)
    await clock.run(53.9)
    assert seen == []
    await clock.run(12.2)
    assert seen == [1]
    await cleaner.stop()


async def test_a_region_that_is_opened_later_has_a_first_pass_of_its_own() -> None:
    clock, seen = ManualClock(), list[int]()
    timers = Timers(clock)

    async def clean(region: int) -> None:
        seen.append(region)

    cleaner = Cleaner(lambda: [1], clean, period=Duration(3_600_000), timers=timers, clock=clock, random=Random(3))
    cleaner.clean_at_once()
    await clock.run(0)
    assert seen == [1]
    for region in range(2, 12):
        cleaner.opened(region)
    cleaner.opened(2)  # closed and opened again
    await clock.run(29.9)
    assert seen == [1]
    await clock.run(15)
    assert 2 <= len(seen) < 11  # not all at one moment
    await clock.run(15.2)
    assert sorted(seen) == [1, *range(2, 12)]
    cleaner.opened(12)
    await cleaner.stop()
    cleaner.opened(13)
    assert not timers


async def test_stopping_waits_for_a_clean_under_way() -> None:
    clock, go_on, done = ManualClock(), asyncio.Event(), list[int]()

    async def clean(region: int) -> None:
        await go_on.wait()
        done.append(region)

    cleaner = Cleaner(lambda: [1, 2], clean, period=Duration(1000), timers=Timers(clock), clock=clock, random=Random(3))
    cleaner.clean_at_once()
    await clock.run(0)
    stopping = asyncio.create_task(cleaner.stop())
    await clock.run(0)
    assert not stopping.done()
    go_on.set()
    await stopping
    assert done == [1]
