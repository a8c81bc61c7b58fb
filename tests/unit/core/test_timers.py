"""Calls by date."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from headwater.core.clock import Alarm, SystemClock
from headwater.core.date_alarm import LONGEST_S
from headwater.core.timers import Timers
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timers(clock: ManualClock) -> Timers:
    return Timers(clock)


async def test_calls_come_at_their_dates_in_their_order(clock: ManualClock, timers: Timers) -> None:
    start, made = clock.now_ms(), []
    for delay in (500, 100, 60_000, 100, 300):
        timers.at(start + delay, lambda delay=delay: made.append((delay, clock.now_ms() - start)))
    await clock.run(0.099)
    assert made == []
    await clock.run(0.4)
    assert made == [(100, 100), (100, 100), (300, 300)]
    assert len(timers) == 2
    await clock.run(60)
    assert made[3:] == [(500, 500), (60_000, 60_000)]
    assert len(timers) == 0


async def test_a_date_in_the_past_comes_soon(clock: ManualClock, timers: Timers) -> None:
    made: list[int] = []
    timers.at(0, lambda: made.append(1))
    assert made == []  # never inside `at`
    await clock.run(0)
    assert made == [1]


async def test_an_earlier_timer_wakes_before_one_that_was_set_first(clock: ManualClock, timers: Timers) -> None:
    made: list[str] = []
    timers.at(clock.now_ms() + 900, lambda: made.append("late"))
    timers.at(clock.now_ms() + 100, lambda: made.append("early"))
    await clock.run(0.1)
    assert made == ["early"]


async def test_what_is_cancelled_is_not_called(clock: ManualClock, timers: Timers) -> None:
    made: list[int] = []
    kept, gone = (timers.at(clock.now_ms() + 10, lambda n=n: made.append(n)) for n in (1, 2))
    gone.cancel()
    gone.cancel()
    assert (len(timers), kept.pending, gone.pending) == (1, True, False)
    await clock.run(1)
    kept.cancel()
    assert (made, len(timers), kept.pending) == ([1], 0, False)


async def test_a_call_may_set_and_cancel_others(clock: ManualClock, timers: Timers) -> None:
    made: list[str] = []
    now = clock.now_ms()
    other = timers.at(now + 20, lambda: made.append("other"))

    def first() -> None:
        other.cancel()
        timers.at(now + 20, lambda: made.append("new"))

    timers.at(now + 10, first)
    await clock.run(1)
    assert made == ["new"]


async def test_a_call_that_fails_is_reported_and_stops_no_other(clock: ManualClock, timers: Timers) -> None:
    told: list[object] = []
    made: list[int] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    error = ZeroDivisionError()

    def fails() -> None:
        raise error

    timers.at(clock.now_ms() + 1, fails)
    timers.at(clock.now_ms() + 1, lambda: made.append(1))
    await clock.run(1)
    assert (told, made) == ([error], [1])


async def test_sleepers_wake_at_their_date_and_a_cancelled_one_leaves(clock: ManualClock, timers: Timers) -> None:
    sleeper = asyncio.create_task(timers.sleep_until(clock.now_ms() + 600_000))
    other = asyncio.create_task(timers.sleep_until(clock.now_ms() + 600_000))
    await clock.run(599)
    other.cancel()
    await clock.run(0)
    assert (sleeper.done(), len(timers)) == (False, 1)
    await clock.run(1)
    assert sleeper.done()


async def test_nothing_is_called_after_close(clock: ManualClock, timers: Timers) -> None:
    made: list[int] = []
    timer = timers.at(clock.now_ms() + 1, lambda: made.append(1))
    timers.close()
    timers.close()
    await clock.run(1)
    timer.cancel()
    assert (made, len(timers)) == ([], 0)


class SetClock(ManualClock):
    """A machine whose date somebody sets, while its monotonic time goes on as before."""

    shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms


async def test_a_date_that_the_machine_reaches_by_being_set_is_seen_soon() -> None:
    clock = SetClock()
    timers, made = Timers(clock), []
    timers.at(clock.now_ms() + 600_000, lambda: made.append(1))
    clock.shift_ms = 600_000
    await clock.run(LONGEST_S)
    assert made == [1]


async def test_a_call_waits_on_when_the_machine_is_set_back() -> None:
    clock = SetClock()
    timers, made = Timers(clock), []
    timers.at(clock.now_ms() + 500, lambda: made.append(1))
    clock.shift_ms = -10_000
    await clock.run(10.4)
    assert made == []
    await clock.run(0.1)
    assert made == [1]


class CountingClock(ManualClock):
    alarms = 0

    def call_later(self, seconds: float, call: Callable[[], None]) -> Alarm:
        self.alarms += 1
        return super().call_later(seconds, call)


async def test_thousands_of_timers_need_few_alarms_and_no_memory_once_cancelled() -> None:
    clock = CountingClock()
    timers, made = Timers(clock), []
    now = clock.now_ms()
    dates = list(range(20_000))
    random.Random(1).shuffle(dates)
    set_ = [timers.at(now + 1000 + date % 7, lambda date=date: made.append(date % 7)) for date in dates]
    assert clock.alarms < 100  # a new one only for what is earlier than all before
    for timer in set_[: len(set_) * 9 // 10]:
        timer.cancel()
    assert len(timers) == 2000
    assert len(timers._heap) <= 4001
    clock.advance(2)
    while timers:
        await asyncio.sleep(0)
    assert len(made) == 2000
    assert made == sorted(made)


async def test_many_due_at_once_let_others_have_their_turn(clock: ManualClock, timers: Timers) -> None:
    made: list[int] = []
    for number in range(5000):
        timers.at(clock.now_ms() + 1, lambda number=number: made.append(number))
    clock.advance(1)
    seen = []
    while timers:
        await asyncio.sleep(0)
        seen.append(len(made))
    assert max(later - earlier for earlier, later in zip([0, *seen], seen, strict=False)) <= 500
    assert made == list(range(5000))


async def test_the_machines_time_calls() -> None:
    clock = SystemClock()
    timers, done = Timers(clock), asyncio.Event()
    when = clock.now_ms() + 20
    timers.at(when, done.set)
    await asyncio.wait_for(done.wait(), 60)
    assert clock.now_ms() >= when


async def test_a_cancelled_call_wakes_nobody_also_behind_one_that_was_made(clock: ManualClock, timers: Timers) -> None:
    made: list[str] = []
    timers.at(clock.now_ms() + 1000, lambda: made.append("first"))
    timers.at(clock.now_ms() + 3_600_000, lambda: made.append("never")).cancel()
    await clock.run(5)
    assert made == ["first"]
    assert [alarm for _, _, alarm in clock._alarms if not alarm.cancelled] == []
