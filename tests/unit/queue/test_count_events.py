"""Listeners are told how many rows there are: at once, then at most each second, where that changes; nobody is woken otherwise."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.queue.values import Counts, FailedClaim, QueueCounts, Rates
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


class Listener:
    """Keeps the counts that a queue tells."""

    def __init__(self, queue: Queue, clock: ManualClock) -> None:
        self.told = list[QueueCounts]()
        self._clock, self._task = clock, asyncio.create_task(self._listen(queue))

    async def _listen(self, queue: Queue) -> None:
        async for event in queue.listen():
            if event.counts is not None:
                self.told.append(event.counts)

    async def after(self, seconds: float) -> list[QueueCounts]:
        """What is told while so much time passes."""
        self._clock.advance(seconds)
        for _ in range(30):
            await asyncio.sleep(0)
        told, self.told = self.told, []
        return told

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_counts_and_rates_come_at_once_and_then_each_second_while_something_changes(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"before")])
    listener = Listener(queue, clock)
    nothing = Rates()
    [first] = await listener.after(0)
    assert (first.rows, first.rates, first.oldest_due > 0, first.paused) == (Counts(1, 0, 0, 0, 0), nothing, True, False)
    assert await listener.after(60) == [], "nothing has changed"
    await queue.put([NewRow(key=b"a"), NewRow(key=b"b"), NewRow(key=b"c", delay=60_000)])
    [one, two] = (await queue.claim(2)).claims
    await queue.done([one.token])
    await queue.fail([FailedClaim(two.token)])
    assert await listener.after(0.999) == []
    [changed] = await listener.after(0.001)
    assert (changed.rows, changed.rates) == (Counts(2, 1, 0, 0, 0), Rates(puts=3, claims=2, done=1, failed=1))
    [calm] = await listener.after(1)
    assert (calm.rows, calm.rates) == (changed.rows, nothing)
    assert await listener.after(30) == []
    await listener.stop()


async def test_rows_that_become_due_and_pauses_are_told(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"later", delay=10_000)])
    listener = Listener(queue, clock)
    await listener.after(0)
    await listener.after(10)
    assert [told.rows for told in await listener.after(1)] == [Counts(1, 0, 0, 0, 0)]
    await queue.pause()
    assert [told.paused for told in await listener.after(1)] == [True]
    await listener.stop()


async def test_a_queue_to_which_nobody_listens_sets_no_timer(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    timers = cast(Any, queue)._runtime._counts._timers
    listener = Listener(queue, clock)
    await listener.after(1)
    assert len(timers) == 0, "it listens, and nothing happens"
    await listener.stop()
    for number in range(3):
        await queue.put([NewRow(key=b"%d" % number)])
        assert len(timers) == 0
    again = Listener(queue, clock)
    [first] = await again.after(0)
    assert (first.rows.due, first.rates) == (3, Rates())
    await again.stop()
