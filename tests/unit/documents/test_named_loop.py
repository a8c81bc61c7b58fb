from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headwater.core.errors import Unavailable
from headwater.core.timers import Timers
from headwater.documents.named_loop import PartitionLoop
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def passed(clock: ManualClock, condition: Callable[[], object]) -> None:
    """Let threads work until something holds."""
    for _ in range(2000):
        if condition():
            return
        await clock.run(0)
        await asyncio.to_thread(lambda: None)
    raise AssertionError("It never came.")


async def test_no_partition_stops_the_others() -> None:
    clock, seen, failures = ManualClock(), list[int](), list[None]()

    async def look(number: int) -> None:
        seen.append(number)
        if number == 1:
            raise Unavailable("Not now.", hint="")
        if number == 2:
            raise ZeroDivisionError

    loop = PartitionLoop(
        "test", lambda: [1, 2, 3], look, period=1000, timers=Timers(clock), clock=clock, failed=lambda: failures.append(None)
    )
    await loop.once()
    assert seen == [1, 2, 3]
    loop.start()
    loop.start()
    await passed(clock, lambda: len(seen) == 6)
    await clock.run(0.5)
    assert seen == [1, 2, 3] * 2
    await clock.run(1)
    await passed(clock, lambda: len(seen) == 9)
    await loop.stop()
    await loop.stop()
    await clock.run(10)
    assert (seen, len(failures)) == ([1, 2, 3] * 3, 6)


async def test_a_fault_of_the_partitions_does_not_end_the_loop() -> None:
    clock, seen, failures = ManualClock(), list[int](), list[None]()
    known: list[list[int]] = [[1]]

    async def look(number: int) -> None:
        seen.append(number)

    loop = PartitionLoop(
        "test", lambda: known.pop(), look, period=1000, timers=Timers(clock), clock=clock, failed=lambda: failures.append(None)
    )
    loop.start()
    await passed(clock, lambda: len(seen) == 1)
    await clock.run(1)
    await passed(clock, lambda: len(failures) == 1)
    known.append([2])
    await clock.run(1)
    await passed(clock, lambda: seen == [1, 2])
    await loop.stop()


async def test_stopping_waits_for_the_partition_under_way() -> None:
    clock, go_on, done, begun = ManualClock(), asyncio.Event(), list[int](), list[int]()

    async def look(number: int) -> None:
        begun.append(number)
        await go_on.wait()
        done.append(number)

    loop = PartitionLoop("test", lambda: [1, 2], look, period=1000, timers=Timers(clock), clock=clock)
    loop.start()
    await passed(clock, lambda: begun)
    stopping = asyncio.create_task(loop.stop())
    await clock.run(0)
    assert not stopping.done()
    go_on.set()
    await stopping
    assert done == [1]


async def test_a_loop_that_does_not_know_its_partitions_tries_again() -> None:
    clock, failures = ManualClock(), list[None]()

    def unknown() -> list[int]:
        raise Unavailable("Not now.", hint="")

    async def look(number: int) -> None:
        raise AssertionError(number)

    loop = PartitionLoop("test", unknown, look, period=1000, timers=Timers(clock), clock=clock, failed=lambda: failures.append(None))
    await loop.once()
    await loop.once()
    assert len(failures) == 2
