"""One reader of a partition for all its followers."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from contextlib import AsyncExitStack, aclosing

import pytest
from tests.unit.documents.feed_ground import TOPIC, FeedGround
from tests.until import until

from headwater.core.errors import Damaged, Unavailable, UnknownTopic
from headwater.documents import dispatch
from headwater.documents.dispatch import MOST_WAITING, FeedTarget, PartitionDispatch, Subscription, prefixes_of
from headwater.documents.feed_event import FeedEvent
from headwater.documents.path import parse_path, partition_of
from headwater.log.record import Record

SHOP = partition_of("shop~", 2)


def test_a_thousand_followers_cost_one_decoding_and_one_encoding(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[object] = []
    decode = dispatch.decode_record
    monkeypatch.setattr(dispatch, "decode_record", lambda value, where: decoded.append(where) or decode(value, where))

    async def follow() -> None:
        one = PartitionDispatch(ground.log, TOPIC, SHOP)
        queues = [Subscription() for _ in range(1000)]
        async with AsyncExitStack() as stack:
            for queue in queues:
                await stack.enter_async_context(one.joined(FeedTarget("shop~"), queue))
            ground.put("shop~/a", n=1)
            ground.put("other~/a", n=1)
            ground.put("shop~/a", n=2)
            got: list[list[FeedEvent]] = [[] for _ in queues]
            for events, queue in zip(got, queues, strict=True):
                while len(events) < 2:
                    events += await queue.take() or []
        assert len(decoded) == 2
        first = got[0]
        assert [event.revision for event in first] == [1, 2]
        for events in got:
            assert all(event is shared and event.sse() is shared.sse() for event, shared in zip(events, first, strict=True))

    asyncio.run(follow())


def test_an_idle_follower_costs_little_memory(ground: FeedGround) -> None:
    ground.put("shop~/a", n=1)

    async def follow() -> None:
        feeds, path = ground.feeds(), parse_path("shop~")

        async def idle() -> None:
            async with aclosing(feeds.follow(path, after=1)) as following:
                await anext(following)

        tasks = [asyncio.create_task(idle()) for _ in range(10)]
        await until(lambda: ground.followers("shop~") == 10)
        tracemalloc.start()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        tasks += [asyncio.create_task(idle()) for _ in range(500)]
        await until(lambda: ground.followers("shop~") == 510)
        for _ in range(20):
            await asyncio.to_thread(lambda: None)
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / 500
        tracemalloc.stop()
        assert each < 20_000
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert ground.followers("shop~") == 0

    asyncio.run(follow())


def test_a_queue_that_is_full_is_given_up(ground: FeedGround) -> None:
    async def follow() -> None:
        queue = Subscription()
        event = FeedEvent(kind="feed", path="a", body=b"x" * 100)
        queue.offer([event] * MOST_WAITING)
        assert queue.waiting == MOST_WAITING
        queue.offer([event])
        assert (queue.waiting, queue.behind) == (0, True)
        queue.offer([event])
        assert queue.waiting == 0
        assert await queue.take() is None
        large = Subscription()
        large.offer([FeedEvent(kind="feed", path="a", body=b"x" * (3 << 20))])  # a single one may be of any size
        assert len(await large.take() or []) == 1
        large.offer([FeedEvent(kind="feed", path="a", body=b"x" * (3 << 20)), event])
        assert await large.take() is None

    asyncio.run(follow())


def test_items_and_prefixes_get_what_is_theirs(ground: FeedGround) -> None:
    async def follow() -> None:
        one = PartitionDispatch(ground.log, TOPIC, SHOP)
        targets = {
            "a": FeedTarget("shop~", "a"),
            "b": FeedTarget("shop~", "b"),
            "all": FeedTarget("", below=True),
            "no": FeedTarget("x/", below=True),
        }
        queues = {name: Subscription() for name in targets}
        async with AsyncExitStack() as stack:
            for name, target in targets.items():
                await stack.enter_async_context(one.joined(target, queues[name]))
            ground.write(("shop~/a", "put", {}), ("shop~/b", "put", {}), ("shop~/a", "put", {}))
            ground.write(("shop~", "delete", None))
            got: dict[str, list[int]] = {"a": [], "b": [], "all": []}
            while sum(map(len, got.values())) < 9:
                for name in got:
                    if queues[name].waiting:
                        got[name] += [event.revision for event in await queues[name].take() or []]
                await asyncio.sleep(0)
            assert got == {"a": [1, 3, 4], "b": [2, 4], "all": [1, 2, 3, 4]}
            assert queues["no"].waiting == 0
        assert one.followers == 0

    asyncio.run(follow())


def test_a_record_that_cannot_be_read_is_told_to_those_whom_it_concerns(ground: FeedGround) -> None:
    async def follow() -> None:
        one, shop, doc = PartitionDispatch(ground.log, TOPIC, SHOP), Subscription(), Subscription()
        async with one.joined(FeedTarget("shop~"), shop), one.joined(FeedTarget("hop~"), doc):
            ground.log.append(TOPIC, SHOP, [Record(b"shop~", b"no json")], part="documents")
            with pytest.raises(Damaged):
                await shop.take()
            assert not doc.waiting

    asyncio.run(follow())


def test_a_deleted_topic_ends_followers_and_the_next_one_begins_anew(ground: FeedGround) -> None:
    async def follow() -> None:
        one, queue = PartitionDispatch(ground.log, TOPIC, SHOP), Subscription()
        async with one.joined(FeedTarget("shop~"), queue):
            ground.log.delete_topic(TOPIC, part="documents")
            with pytest.raises(UnknownTopic):
                await queue.take()
        with pytest.raises(UnknownTopic):
            async with one.joined(FeedTarget("shop~"), queue):
                pass

    asyncio.run(follow())


def test_a_fault_of_reading_ends_followers_instead_of_leaving_them_waiting(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow() -> None:
        one, queue = PartitionDispatch(ground.log, TOPIC, SHOP), Subscription()
        async with one.joined(FeedTarget("shop~"), queue):
            with monkeypatch.context() as broken:
                broken.setattr(ground.log, "read", lambda *_, **__: 1 // 0)
                ground.put("shop~/a", apply=False, n=1)
                with pytest.raises(Unavailable, match="ZeroDivisionError"):
                    await queue.take()
            again = Subscription()
            async with one.joined(FeedTarget("shop~"), again):  # which begins to read anew
                ground.put("shop~/a", n=2)
                assert [event.revision for event in await again.take() or []] == [2]

    asyncio.run(follow())


def test_prefixes() -> None:
    assert list(prefixes_of("a/b/c~")) == ["", "a/", "a/b/"]
    assert list(prefixes_of("a")) == [""]
