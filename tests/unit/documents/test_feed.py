"""Feeds of documents, collections and items."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from random import Random

import pytest
from tests.unit.documents.feed_ground import TOPIC, FeedGround, replayed, taken, told

from headwater.core.errors import Closed
from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent
from headwater.documents.path import parse_path, partition_of

SHOP = parse_path("shop~")


def test_a_feed_gives_what_was_before_and_then_what_comes(ground: FeedGround) -> None:
    ground.put("shop~/hat", price=1)
    ground.write(("shop~/hat", "patch", {"price": 2}))

    async def follow() -> None:
        feeds = ground.feeds()
        following = feeds.follow(SHOP, after=0)
        async with aclosing(following):
            assert told(await anext(following)) == ground.history("shop~")
            ground.write(("shop~/hat", "delete", None), ("shop~/cap", "put", {"price": 3}))
            events = await anext(following)
            assert told(events) == ground.history("shop~")[2:]
            assert [event.name for event in events] == ["feed:delete", "feed:put"]
            ground.put("other~/x")  # of another collection
            ground.put("shop~/hat", price=9)
            assert told(await anext(following)) == ground.history("shop~")[4:]
        assert feeds.dispatch(partition_of("shop~", 2)).followers == 0

    asyncio.run(follow())


def test_without_a_revision_a_feed_begins_now(ground: FeedGround) -> None:
    for number in range(3):
        ground.put("a/b", number=number, apply=number < 2)

    async def follow() -> None:
        feeds = ground.feeds()
        following = feeds.follow(parse_path("a/b"))
        waiting = asyncio.ensure_future(anext(following))
        while not feeds.dispatch(partition_of("a/b", 2)).followers:
            await asyncio.sleep(0)
        ground.put("a/b", number=4)
        assert told(await waiting) == ground.history("a/b")[3:]
        await following.aclose()

    asyncio.run(follow())


@pytest.mark.parametrize("seed", range(20))
def test_a_feed_is_the_history_whatever_was_applied(ground: FeedGround, seed: int) -> None:
    random = Random(seed)
    paths = ["shop~/hat", "shop~/cap", "shop~/a", "doc", "dir/doc"]
    for _ in range(60):
        ground.random_write(random, paths, apply=random.random() < 0.7)

    async def follow() -> None:
        feeds = ground.feeds()
        for name in ("shop~", "doc", "dir/doc"):
            history = ground.history(name)
            for after in {0, 1, len(history) // 2, max(len(history) - 1, 0)}:
                if history[after:]:
                    assert told(await taken(feeds.follow(parse_path(name), after=after), len(history) - after)) == history[after:]

    asyncio.run(follow())


@pytest.mark.parametrize("seed", range(12))
def test_no_gap_and_no_double_between_catching_up_and_following(ground: FeedGround, seed: int) -> None:
    """A writer in another thread goes on while followers come, resume and leave."""
    random, rounds = Random(seed), 150

    def write() -> None:
        for _ in range(rounds):
            ground.random_write(random, ["shop~/a", "shop~/b"], apply=random.random() < 0.8)
        ground.put("shop~/end", apply=False)

    async def one(feeds: DocumentFeeds, begin: int, portion: int) -> None:
        events: list[tuple[str, int, str, bytes]] = []
        after = begin
        while not events or events[-1][0] != "shop~/end":
            found = await taken(feeds.follow(SHOP, after=after), portion)
            events += told(found)
            after = found[-1].revision
        assert [event[1] for event in events] == list(range(begin + 1, events[-1][1] + 1))
        assert events == ground.history("shop~")[begin:]

    async def follow() -> None:
        ground.put("shop~/a")
        feeds = ground.feeds()
        writing = asyncio.create_task(asyncio.to_thread(write))
        await asyncio.gather(*(one(feeds, begin % 2, portion) for begin, portion in enumerate((1, 2, 7, 50, 10_000))))
        await writing

    asyncio.run(follow())


def test_the_feed_of_an_item_has_its_changes_and_the_end_of_its_collection(ground: FeedGround) -> None:
    ground.put("shop~/hat", n=1)
    ground.put("shop~/cap", n=2)
    ground.put("shop~/hat", n=3)

    async def follow() -> None:
        following = ground.feeds().follow(parse_path("shop~/hat"), after=1)
        async with aclosing(following):
            assert [event.revision for event in await anext(following)] == [3]
            ground.put("shop~/cap", n=4)
            ground.write(("shop~/cap", "put", {}), ("shop~/hat", "patch", {"n": 5}))
            (event,) = await anext(following)
            assert (event.revision, event.method, event.state) == (6, "patch", b'{"n":5}')
            ground.write(("shop~", "delete", None))
            (event,) = await anext(following)
            assert (event.path, event.method, event.revision) == ("shop~", "delete", 7)

    asyncio.run(follow())


def test_a_slow_follower_keeps_no_memory_and_loses_nothing(ground: FeedGround) -> None:
    async def follow() -> None:
        feeds = ground.feeds()
        slow, quick = feeds.follow(SHOP, after=0), feeds.follow(SHOP, after=0)
        ground.put("shop~/a", n=0)
        async with aclosing(slow), aclosing(quick):
            await anext(slow)
            await anext(quick)
            got = 0
            for number in range(1, 600):
                ground.put("shop~/a", n=number)
                if number % 50 == 0:
                    while got < number:
                        got += len(await anext(quick))
            events = [event async for portion in _until(slow, 600) for event in portion]
        assert [event.revision for event in events] == list(range(2, 601))

    asyncio.run(follow())


async def _until(following: AsyncGenerator[Sequence[FeedEvent]], revision: int) -> AsyncGenerator[Sequence[FeedEvent]]:
    async for portion in following:
        yield portion
        if portion[-1].revision == revision:
            return


def test_history_that_is_gone_begins_with_reset_and_the_state(ground: FeedGround) -> None:
    partition = partition_of("shop~", 2)
    for number in range(200):
        ground.put(f"shop~/{number % 7}", n=number, filler="x" * 100)
    ground.log.delete_before(TOPIC, partition, 150, part="documents")

    async def follow() -> None:
        feeds = ground.feeds()
        events = await taken(feeds.follow(SHOP, after=10), 9)
        assert [event.name for event in events] == ["reset", *["snapshot:put"] * 7, "snapshot:end"]
        assert events[-1].revision == 200
        assert {event.item: event.revision for event in events[1:-1]} == {str(n % 7): n + 1 for n in range(193, 200)}
        kept = await taken(feeds.follow(SHOP, after=190), 10)
        assert [event.revision for event in kept] == list(range(191, 201))
        future = await taken(feeds.follow(SHOP, after=1000), 9)
        assert (future[0].name, future[-1].revision) == ("reset", 200)
        assert [event.name for event in await feeds.poll(SHOP, 10)] == ["reset"]

    asyncio.run(follow())


def test_a_snapshot_is_the_state_at_its_revision_while_others_write(ground: FeedGround) -> None:
    random = Random(7)
    for number in range(350):
        ground.put(f"shop~/{number:04}", n=number)

    async def follow() -> None:
        following = ground.feeds().follow(SHOP, snapshot=True)
        state: dict[str, bytes] = {}
        ended = 0
        async with aclosing(following):
            while not ended:
                for event in await anext(following):
                    if event.kind == "end":
                        ended = event.revision
                    elif event.method == "delete":
                        state.pop(event.path) if event.item else state.clear()
                    else:
                        state[event.path] = event.body
                for _ in range(20):
                    ground.random_write(random, [f"shop~/{random.randrange(400):04}" for _ in range(3)])
            assert state == replayed(ground.history("shop~"), ended)
            assert (await anext(following))[0].revision == ended + 1

    asyncio.run(follow())


def test_a_snapshot_of_a_collection_that_is_deleted_meanwhile_begins_anew(ground: FeedGround) -> None:
    for number in range(150):
        ground.put(f"shop~/{number:04}", n=number)

    async def follow() -> None:
        following = ground.feeds().follow(SHOP, snapshot=True)
        async with aclosing(following):
            assert len(await anext(following)) == 100
            ground.write(("shop~", "delete", None))
            ground.put("shop~/new", n=1)
            assert [(event.name, event.path) for event in await anext(following)] == [("snapshot:delete", "shop~")]
            assert [(event.name, event.path) for event in await anext(following)] == [
                ("snapshot:put", "shop~/new"),
                ("snapshot:end", "shop~"),
            ]

    asyncio.run(follow())


def test_the_snapshot_of_a_document_and_of_an_item(ground: FeedGround) -> None:
    ground.put("a/b", n=1)
    ground.put("shop~/hat", n=2)
    ground.put("shop~/cap", n=3)

    async def follow() -> None:
        feeds = ground.feeds()
        events = await taken(feeds.follow(parse_path("a/b"), snapshot=True), 2)
        assert [(event.name, event.body, event.revision) for event in events] == [("snapshot:put", b'{"n":1}', 1), ("snapshot:end", b"", 1)]
        events = await taken(feeds.follow(parse_path("shop~/hat"), snapshot=True), 2)
        assert [(event.name, event.body, event.revision) for event in events] == [("snapshot:put", b'{"n":2}', 1), ("snapshot:end", b"", 2)]
        events = await taken(feeds.follow(parse_path("none"), snapshot=True), 1)
        assert [(event.name, event.revision) for event in events] == [("snapshot:end", 0)]

    asyncio.run(follow())


def test_poll_answers_at_once_or_when_something_comes(ground: FeedGround) -> None:
    ground.put("a/b", n=1)

    async def follow() -> None:
        feeds, path = ground.feeds(), parse_path("a/b")
        assert [event.revision for event in await feeds.poll(path, 0)] == [1]
        assert await feeds.poll(path, 1) == []
        assert await feeds.poll(path, 1, wait=0.01) == []
        waiting = asyncio.create_task(feeds.poll(path, 1, wait=30))
        await asyncio.sleep(0)
        ground.put("a/b", n=2)
        assert [event.revision for event in await waiting] == [2]

    asyncio.run(follow())


def test_closing_ends_followers(ground: FeedGround) -> None:
    ground.put("a/b", n=1)

    async def follow() -> None:
        feeds = ground.feeds()
        following = feeds.follow(parse_path("a/b"), after=0)
        await anext(following)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        await feeds.aclose()
        with pytest.raises(Closed):
            await waiting

    asyncio.run(follow())
