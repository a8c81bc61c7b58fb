"""The alarm of a queue rings at the earliest date, and not at all where nothing is dated."""

from __future__ import annotations

import pytest

from headwater.core.timers import Timers
from headwater.queue.date_heap import NEVER
from headwater.queue.timers import QueueAlarm
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def test_it_rings_at_the_earliest_date_that_was_set(clock: ManualClock) -> None:
    rung: list[int] = []
    timers, now = Timers(clock), clock.now_ms()
    alarm = QueueAlarm(timers, lambda: rung.append(clock.now_ms() - now))
    alarm.set(now + 5000)
    alarm.set(now + 3000)
    alarm.set(now + 4000)
    assert len(timers) == 1
    await clock.run(10)
    assert rung == [3000]  # whoever rings sets the next date
    alarm.set(now + 12_000)
    await clock.run(10)
    assert rung == [3000, 12_000]
    timers.close()


async def test_where_nothing_is_dated_nobody_is_woken(clock: ManualClock) -> None:
    timers = Timers(clock)
    alarm = QueueAlarm(timers, lambda: None)
    alarm.set(NEVER)
    assert len(timers) == 0
    alarm.set(clock.now_ms() + 5)
    alarm.set(NEVER)
    assert len(timers) == 0
    alarm.stop()
    alarm.stop()
    timers.close()


async def test_a_date_that_is_past_rings_soon(clock: ManualClock) -> None:
    rung: list[int] = []
    timers = Timers(clock)
    alarm = QueueAlarm(timers, lambda: rung.append(1))
    alarm.set(clock.now_ms() - 5)
    await clock.run(0)
    assert rung == [1]
    timers.close()
