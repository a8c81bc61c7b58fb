from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

import pytest

from headwater.client.watch import Watch
from headwater.core.errors import Closed, UnknownTopic
from headwater.log import Watching

pytestmark = pytest.mark.anyio


class Partition(Watching):
    """A partition whose end a test moves, in a thread as the log does."""

    def __init__(self) -> None:
        self.now = 0
        self.opened = self.asked = 0
        self.error: Exception | None = None
        self.changed: Callable[[], None] | None = None
        self.may_open = asyncio.Event()
        self.may_open.set()

    async def open(self, changed: Callable[[], None]) -> Watching:
        self.opened += 1
        await self.may_open.wait()
        self.changed = changed
        return self

    def end(self) -> int:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.now

    def close(self) -> None:
        self.changed = None

    def move(self, end: int, error: Exception | None = None) -> None:
        self.now, self.error = end, error
        assert self.changed is not None
        thread = threading.Thread(target=self.changed)
        thread.start()
        thread.join()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_each_waits_for_its_own_offset() -> None:
    partition = Partition()
    async with Watch(partition.open) as watch:
        near, far = asyncio.create_task(watch.beyond(0)), asyncio.create_task(watch.beyond(5))
        await turns()
        partition.move(3)
        assert await near == 3
        assert not far.done()
        partition.move(6)
        assert await far == 6


async def test_an_end_that_is_beyond_already_is_answered() -> None:
    partition = Partition()
    partition.now = 9
    async with Watch(partition.open) as watch:
        assert await watch.beyond(3) == 9


async def test_nobody_looks_while_nothing_comes_and_one_look_serves_a_thousand() -> None:
    partition = Partition()
    async with Watch(partition.open) as watch:
        waiting = [asyncio.create_task(watch.beyond(0)) for _ in range(1000)]
        await turns()
        assert partition.asked == 1000, "each looks once before it waits"
        await turns(100)
        assert partition.asked == 1000
        partition.move(1)
        partition.move(2)
        assert await asyncio.gather(*waiting) == [2] * 1000
        assert partition.asked == 1001


async def test_the_partition_is_watched_once_from_the_first_follower_to_the_last() -> None:
    partition = Partition()
    watch = Watch(partition.open)
    async with watch, watch:
        async with watch:
            pass
        assert partition.changed is not None
        assert not watch.over
    assert partition.opened == 1
    assert partition.changed is None
    assert watch.over


async def test_a_follower_that_leaves_before_it_is_open_leaves_nothing_watched() -> None:
    partition = Partition()
    partition.may_open.clear()
    watch = Watch(partition.open)

    async def enter() -> None:
        async with watch:
            raise AssertionError("not reached")

    entering = asyncio.create_task(enter())
    await turns()
    entering.cancel()
    await asyncio.gather(entering, return_exceptions=True)
    partition.may_open.set()
    await turns()
    assert partition.changed is None


async def test_an_opening_that_fails_after_its_follower_has_left_is_no_unseen_error() -> None:
    may_fail = asyncio.Event()
    unseen: list[object] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: unseen.append(context))

    async def fail_later(changed: Callable[[], None]) -> Watching:
        await may_fail.wait()
        raise UnknownTopic("There is no topic.")

    async def enter() -> None:
        async with Watch(fail_later):
            raise AssertionError("not reached")

    try:
        entering = asyncio.create_task(enter())
        await turns()
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        may_fail.set()
        await turns()
        gc.collect()
        assert unseen == []
    finally:
        loop.set_exception_handler(before)


async def test_what_opening_raises_is_raised() -> None:
    async def fail(changed: Callable[[], None]) -> Watching:
        raise UnknownTopic("There is no topic t.")

    watch = Watch(fail)
    with pytest.raises(UnknownTopic):
        async with watch:
            pass
    assert watch.over


async def test_what_looking_raises_reaches_all_who_wait_and_all_who_come() -> None:
    partition = Partition()
    async with Watch(partition.open) as watch:
        waiting = [asyncio.create_task(watch.beyond(offset)) for offset in range(2)]
        await turns()
        partition.move(0, UnknownTopic("There is no topic t."))
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [UnknownTopic, UnknownTopic]
        assert watch.over
        with pytest.raises(UnknownTopic):
            await watch.beyond(0)


async def test_stopping_ends_every_wait() -> None:
    partition = Partition()
    async with Watch(partition.open) as watch:
        waiting = asyncio.create_task(watch.beyond(0))
        await turns()
        watch.stop(Closed("This log is closed."))
        with pytest.raises(Closed):
            await waiting


async def test_a_wait_that_is_given_up_leaves_nothing() -> None:
    partition = Partition()
    async with Watch(partition.open) as watch:
        waiting = asyncio.create_task(watch.beyond(0))
        await turns()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not watch._waiting
        partition.move(1)
        assert await watch.beyond(0) == 1
