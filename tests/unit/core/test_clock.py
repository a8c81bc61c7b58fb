"""Time for asyncio: the machine's, and the one that a test moves."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headwater.core.clock import Clock, SystemClock
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
HOUR = 3600.0


async def test_a_sleeper_wakes_when_its_time_has_come_and_not_before() -> None:
    clock, woken = ManualClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    async with asyncio.TaskGroup() as tasks:
        for seconds in (2 * HOUR, HOUR, 3 * HOUR):
            tasks.create_task(sleeper(seconds))
        start = clock.monotonic()
        await clock.run(HOUR - 0.001)
        assert woken == []
        await clock.run(0.001)
        assert woken == [(HOUR, start + HOUR)]
        await clock.run(2 * HOUR)
        assert woken == [(n * HOUR, start + n * HOUR) for n in (1, 2, 3)]


async def test_a_loop_that_sleeps_again_is_woken_at_each_of_its_times() -> None:
    clock, times = ManualClock(0.0), []

    async def loop() -> None:
        while True:
            await clock.sleep(60)
            times.append(clock.monotonic())

    task = asyncio.create_task(loop())
    await clock.run(200)
    task.cancel()
    assert times == [60, 120, 180]


async def test_a_cancelled_sleeper_leaves_nothing_behind() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.run(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await clock.run(10)


async def test_an_alarm_that_is_cancelled_by_one_of_the_same_moment_does_not_ring() -> None:
    clock, rung = ManualClock(), []
    clock.call_later(1, lambda: (rung.append("first"), second.cancel()))
    second = clock.call_later(1, lambda: rung.append("second"))
    await clock.run(1)
    assert rung == ["first"]


async def test_another_thread_may_move_the_time() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(HOUR))
    await asyncio.sleep(0)
    threading.Thread(target=clock.advance, args=(HOUR,)).start()
    await asyncio.wait_for(task, 60)


async def test_a_clock_that_does_not_wake_rings_nothing() -> None:
    clock, rung = ManualClock(wakes=False), []
    clock.call_later(1, lambda: rung.append(1))
    await clock.run(10)
    assert rung == []


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
async def test_what_takes_too_long_is_cancelled(clock: Clock) -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def limited() -> None:
        async with clock.timeout(0.01):
            await slow()

    task = asyncio.create_task(limited())
    if isinstance(clock, ManualClock):
        await clock.run(0.009)
        assert not task.done()
        await clock.run(0.001)
    with pytest.raises(TimeoutError):
        await task
    assert ended == ["cancelled"]


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
async def test_what_ends_in_time_is_not_cancelled_later(clock: Clock) -> None:
    async with clock.timeout(0.001 if isinstance(clock, ManualClock) else HOUR):
        await asyncio.sleep(0)
    if isinstance(clock, ManualClock):
        await clock.run(HOUR)
    with pytest.raises(ZeroDivisionError):
        async with clock.timeout(HOUR):
            raise ZeroDivisionError


async def test_the_machines_time_wakes_sleepers() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() - before >= 0.0099
