"""Alarms of an event loop by date."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Callable

import pytest
from tests.descriptors import descriptors

from headwater.core.clock import Clock, SystemClock
from headwater.core.date_alarm import LONGEST_S, DateAlarm, date_alarm
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio

linux = pytest.mark.skipif(sys.platform != "linux", reason="other kernels keep no dates")


class OtherClock(SystemClock):
    """The machine's time, by a clock of which the kernel knows nothing."""


@pytest.fixture(params=[SystemClock, OtherClock], ids=["kernel", "seconds"])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


class Rings:
    """Rings until the date has come, as `Timers` does."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.over, self.count = clock, asyncio.Event(), 0
        self.alarm: DateAlarm = date_alarm(clock, self.ring)
        self.when = 0

    def set(self, when_ms: int) -> None:
        self.when = when_ms
        self.alarm.set(when_ms)

    def ring(self) -> None:
        self.count += 1
        if self.clock.now_ms() >= self.when:
            self.over.set()
        else:
            self.alarm.set(self.when)


async def test_it_rings_when_the_date_has_come(clock: Clock) -> None:
    rings = Rings(clock)
    rings.set(clock.now_ms() + 3)
    assert not rings.over.is_set()
    await asyncio.wait_for(rings.over.wait(), 60)
    assert clock.now_ms() >= rings.when
    rings.alarm.close()


@pytest.mark.parametrize("past", [0, 1, -5, 1_000_000_000_000])
async def test_a_date_that_is_past_rings_soon_and_not_at_once(clock: Clock, past: int) -> None:
    rings = Rings(clock)
    rings.set(past)
    assert rings.count == 0
    await asyncio.wait_for(rings.over.wait(), 60)
    rings.alarm.close()


async def test_the_last_date_counts(clock: Clock) -> None:
    rings = Rings(clock)
    rings.set(clock.now_ms() + 86_400_000)
    rings.set(clock.now_ms() + 2)
    await asyncio.wait_for(rings.over.wait(), 60)
    rings.alarm.close()


@pytest.mark.parametrize("end", [lambda alarm: alarm.stop(), lambda alarm: alarm.close()], ids=["stop", "close"])
async def test_nothing_rings_after_the_end(clock: Clock, end: Callable[[DateAlarm], None]) -> None:
    rings, other = Rings(clock), Rings(clock)
    when = clock.now_ms() + 2
    rings.set(when)
    end(rings.alarm)
    end(rings.alarm)
    other.set(when + 2)
    await asyncio.wait_for(other.over.wait(), 60)
    assert rings.count == 0
    for one in (rings, other):
        one.alarm.close()


@linux
@pytest.mark.parametrize("far", [86_400_000, 1 << 62])
async def test_the_kernel_wakes_nobody_before_the_date(far: int) -> None:
    clock = ManualClock()
    assert far > LONGEST_S * 1000
    rings, near = Rings(SystemClock()), Rings(SystemClock())
    rings.set(rings.clock.now_ms() + far)
    for _ in range(3):
        near.over.clear()
        near.set(near.clock.now_ms() + 2)
        await asyncio.wait_for(near.over.wait(), 60)
    assert rings.count == 0
    rings.alarm.close()
    near.alarm.close()
    seconds = Rings(clock)  # beside it: without the kernel's help it looks once a second
    seconds.set(clock.now_ms() + 3_600_000)
    await clock.run(10)
    assert seconds.count == 10


def timer_files() -> int:
    gc.collect()  # alarms that others have left
    return sum(link == "anon_inode:[timerfd]" for link in descriptors())


@linux
async def test_an_alarm_needs_one_file_and_gives_it_back() -> None:
    before = timer_files()
    rings = Rings(SystemClock())
    for later in range(100):
        rings.set(rings.clock.now_ms() + 60_000 + later)
    assert timer_files() == before + 1
    rings.alarm.close()
    assert timer_files() == before


@linux
async def test_where_no_file_can_be_opened_it_looks_once_a_second() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        rings = Rings(SystemClock())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    rings.set(rings.clock.now_ms() + 2)
    await asyncio.wait_for(rings.over.wait(), 60)
    rings.alarm.close()


@linux
async def test_an_alarm_outlives_its_loop_without_an_error() -> None:
    async def made() -> Rings:
        rings = Rings(SystemClock())
        rings.set(rings.clock.now_ms() + 60_000)
        return rings

    rings = await asyncio.to_thread(lambda: asyncio.run(made()))
    rings.alarm.close()
