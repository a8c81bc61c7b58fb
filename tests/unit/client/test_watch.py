from __future__ import annotations

import asyncio

import pytest

from headwater.client.watch import Watch
from headwater.core.errors import Closed, UnknownTopic

pytestmark = pytest.mark.anyio


class Partition:
    def __init__(self) -> None:
        self.end = 0
        self.asked = 0
        self.error: Exception | None = None
        self.was_asked = asyncio.Event()

    async def end_of(self) -> int:
        self.asked += 1
        self.was_asked.set()
        if self.error:
            raise self.error
        return self.end


async def test_each_waits_for_its_own_offset() -> None:
    partition = Partition()
    watch = Watch(partition.end_of, pause=0)
    near, far = asyncio.create_task(watch.beyond(0)), asyncio.create_task(watch.beyond(5))
    await partition.was_asked.wait()
    partition.end = 3
    assert await near == 3
    assert not far.done()
    partition.end = 6
    assert await far == 6


async def test_an_end_that_is_beyond_already_is_answered() -> None:
    partition = Partition()
    partition.end = 9
    assert await Watch(partition.end_of, pause=0).beyond(3) == 9


async def test_nobody_asks_when_nobody_waits() -> None:
    partition = Partition()
    watch = Watch(partition.end_of, pause=0)
    waiting = asyncio.create_task(watch.beyond(0))
    await partition.was_asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for _ in range(5):
        await asyncio.sleep(0)
    asked = partition.asked
    for _ in range(20):
        await asyncio.sleep(0)
    assert partition.asked == asked
    partition.end = 1
    assert await watch.beyond(0) == 1, "a later wait starts the asking again"


async def test_what_asking_raises_reaches_all_who_wait() -> None:
    partition = Partition()
    partition.error = UnknownTopic("There is no topic t.")
    watch = Watch(partition.end_of, pause=0)
    results = await asyncio.gather(watch.beyond(0), watch.beyond(1), return_exceptions=True)
    assert [type(result) for result in results] == [UnknownTopic, UnknownTopic]


async def test_stopping_ends_every_wait() -> None:
    partition = Partition()
    watch = Watch(partition.end_of, pause=0)
    waiting = asyncio.create_task(watch.beyond(0))
    await partition.was_asked.wait()
    watch.stop(Closed("This log is closed."))
    with pytest.raises(Closed):
        await waiting
