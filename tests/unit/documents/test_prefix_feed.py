"""Feeds of everything below a prefix."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from random import Random

import pytest
from tests.unit.documents.feed_ground import TOPIC, FeedGround, told

from headwater.core.errors import BadInput, Unavailable
from headwater.documents.feed_position import FeedPosition, feed_mark
from headwater.documents.path import parse_path, partition_of
from headwater.documents.prefix_feed import PlacedFeedEvent, PrefixFeeds

ENDS = {"a/b/end", "a/b/end2"}  # the last changes of the two partitions
PATHS = ["a/x", "a/y", "a/b/z", "a/c~/1", "a/c~/2", "b/x", "ab"]


def below(ground: FeedGround, prefix: str) -> list[tuple[str, int, str, bytes]]:
    return [change for change in ground.written if parse_path(change[0]).uri.startswith(prefix)]


def by_document(changes: Sequence[tuple[str, int, str, bytes]]) -> dict[str, list[tuple[str, int, str, bytes]]]:
    found: dict[str, list[tuple[str, int, str, bytes]]] = {}
    for change in changes:
        found.setdefault(parse_path(change[0]).uri, []).append(change)
    return found


async def placed(feeds: PrefixFeeds, prefix: str, count: int, *, after: str | None = None, snapshot: bool = False) -> list[PlacedFeedEvent]:
    events: list[PlacedFeedEvent] = []
    async with asyncio.timeout(30), aclosing(feeds.follow(prefix, after=after, snapshot=snapshot)) as following:
        async for portion in following:
            events += portion
            if len(events) >= count or ENDS & {event.path for event, _ in portion}:
                break
    return events


@pytest.mark.parametrize("seed", range(8))
def test_every_change_below_a_prefix_comes_once_over_all_resumes(ground: FeedGround, seed: int) -> None:
    random = Random(seed)

    def write() -> None:
        for _ in range(100):
            ground.random_write(random, PATHS, apply=random.random() < 0.7)
        for path in ENDS:
            ground.put(path)

    async def follow() -> None:
        feeds = PrefixFeeds(ground.feeds())
        start = (await placed(feeds, "a/", 6, snapshot=True))[-1].position
        writing = asyncio.create_task(asyncio.to_thread(write))
        for prefix, portion in (("a/", 1), ("a/", 13), ("", 50), ("a/b/", 3)):
            events: list[PlacedFeedEvent] = []
            after = start
            while not {event.path for event, _ in events} >= ENDS:
                found = await placed(feeds, prefix, portion, after=after)
                events += found[: random.randrange(1, len(found) + 1)]  # the client is cut off anywhere
                after = events[-1].position
            await writing
            assert by_document(told([event for event, _ in events])) == by_document(below(ground, prefix))

    for path in PATHS:
        ground.put(path)
    ground.written.clear()
    asyncio.run(follow())


def test_from_now_on_and_only_below_the_prefix(ground: FeedGround) -> None:
    ground.put("a/x", n=1)

    async def follow() -> None:
        feeds = ground.feeds()
        async with aclosing(PrefixFeeds(feeds).follow("a/")) as following:
            waiting = asyncio.ensure_future(anext(following))
            while not all(feeds.dispatch(number).followers for number in range(2)):
                await asyncio.sleep(0)
            ground.put("b/x", n=2)
            ground.put("a/c~/1", n=3)
            (event,) = await waiting
            assert (event.event.path, event.event.revision) == ("a/c~/1", 1)
            assert event.sse().startswith(f"id: {event.position}\nevent: feed:put\ndata: ".encode())
            assert event.json().endswith(f',"position":"{event.position}"}}'.encode())

    asyncio.run(follow())


def test_a_position_passes_over_nothing_that_was_read_after_an_error(ground: FeedGround) -> None:
    """The reader of a partition fails, and begins anew for another follower, while this one has not yet taken its last event."""

    async def follow() -> None:
        feeds = ground.feeds()
        async with aclosing(PrefixFeeds(feeds).follow("a/")) as following:
            waiting = asyncio.ensure_future(anext(following))
            while not all(feeds.dispatch(number).followers for number in range(2)):
                await asyncio.sleep(0)
            ground.put("a/c~/1", n=1)
            number = partition_of("a/c~", 2)
            one = feeds.dispatch(number)
            end = ground.log.bounds(TOPIC, number).end
            while one.next != end:
                await asyncio.sleep(0)
            one._fail(Unavailable("The log could not be read."))
            one.next = end + 5  # where it begins for the other one
            (event,) = await waiting
            assert FeedPosition.read(event.position).places[number] == (end - 1, 1)
            with pytest.raises(Unavailable):
                await anext(following)

    asyncio.run(follow())


def test_the_snapshot_of_a_prefix_is_what_the_changes_before_it_have_made(ground: FeedGround) -> None:
    random = Random(3)
    paths = [*PATHS, *(f"a/big~/{number:04}" for number in range(250)), *(f"a/d{number:03}" for number in range(150))]
    for path in paths:
        ground.put(path, n=0)

    async def follow() -> None:
        state: dict[str, bytes] = {}
        following = PrefixFeeds(ground.feeds()).follow("a/", snapshot=True)
        async with aclosing(following):
            ended = False
            while not ended:
                for event, position in await anext(following):
                    ended = event.kind == "end"
                    assert bool(position) == ended
                    if event.method == "delete":
                        state.pop(event.path, None)
                    elif not ended:
                        state[event.path] = event.state
                for _ in range(10):
                    ground.random_write(random, paths)
            ground.put("a/last", n=9)
            seen: list[str] = []
            while "a/last" not in seen:
                for event, _ in await anext(following):
                    seen.append(event.path)
                    if event.state:
                        state[event.path] = event.state
                    else:
                        state.pop(event.path, None)
        expected: dict[str, bytes] = {}
        for store in ground.stores:
            with store.view() as view:
                for head in view.heads(prefix="a/", limit=1000):
                    if head.uri.endswith("~"):
                        expected |= {f"{head.uri}/{row.item}": row.body for row in view.rows(head.uri, limit=1000)}
                    elif (row := view.row(head.uri)) is not None:
                        expected[head.uri] = row.body
        assert state == expected

    asyncio.run(follow())


def test_a_position_that_the_log_no_longer_has_begins_with_reset(ground: FeedGround) -> None:
    for number in range(200):
        ground.put("a/x", n=number, filler="x" * 100)
        ground.put("a/y", n=number, filler="x" * 100)

    async def follow() -> None:
        feeds = PrefixFeeds(ground.feeds())
        mark = (await placed(feeds, "a/", 3, snapshot=True))[-1].position.partition(":")[0]
        for partition in range(2):
            end = ground.log.bounds(TOPIC, partition).end
            ground.log.delete_before(TOPIC, partition, end, part="documents")
        for after in (f"{mark}:3,3", "00000000:0,0", f"{mark}:3", f"{mark}:999999,0"):
            events = await placed(feeds, "a/", 4, after=after)
            assert [event.name for event, _ in events] == ["reset", "snapshot:put", "snapshot:put", "snapshot:end"]

    asyncio.run(follow())


def test_what_is_no_prefix_and_no_position_is_refused(ground: FeedGround) -> None:
    async def follow() -> None:
        feeds = PrefixFeeds(ground.feeds())
        with pytest.raises(BadInput):
            await anext(feeds.follow("a"))
        with pytest.raises(BadInput):
            await anext(feeds.follow("a/", after="7"))

    asyncio.run(follow())


def test_poll_answers_at_once_or_when_something_comes(ground: FeedGround) -> None:
    ground.put("a/x", n=1)
    ground.put("b/x", n=1)

    async def follow() -> None:
        feeds = PrefixFeeds(ground.feeds())
        start = f"{feed_mark(ground.topic.generation)}:0,0"
        (event,) = await feeds.poll("a/", start)
        assert event.event.path == "a/x"
        assert await feeds.poll("a/", event.position) == []
        assert await feeds.poll("a/", event.position, wait=0.01) == []
        waiting = asyncio.create_task(feeds.poll("a/", event.position, wait=30))
        await asyncio.sleep(0)
        ground.put("b/y", n=2)
        ground.put("a/y", n=2)
        (event,) = await waiting
        assert event.event.path == "a/y"
        assert [event.name for event, _ in await feeds.poll("a/", "00000000:0,0")] == ["reset"]

    asyncio.run(follow())
