"""Live queries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.documents.feed_ground import END, FeedGround, replayed
from tests.unit.documents.waiting_filter import WaitingFilter
from tests.until import until

from headwater.core.clock import Clock, SystemClock
from headwater.core.document_errors import BadFilter, QueryTimeout
from headwater.core.errors import BadInput
from headwater.documents import live
from headwater.documents.feed_event import FeedEvent
from headwater.documents.filter.evaluate import Filter, compile_filter
from headwater.documents.live import LiveQueries
from headwater.documents.path import parse_path
from headwater.testing.clock import ManualClock

SHOP = parse_path("shop~")


def live_queries(ground: FeedGround, clock: Clock | None = None) -> LiveQueries:
    return LiveQueries(ground.feeds(), clock=clock or SystemClock(), seconds=15)


def test_items_enter_change_and_leave(ground: FeedGround) -> None:
    ground.put("shop~/cheap", price=3)
    ground.put("shop~/dear", price=30)

    async def follow() -> None:
        following = live_queries(ground).follow(SHOP, "price < 10")
        async with aclosing(following):
            events = await anext(following)
            assert [(event.name, event.path) for event in events] == [("snapshot:put", "shop~/cheap"), ("snapshot:end", "shop~")]
            ground.write(("shop~/dear", "patch", {"price": 4}))
            (event,) = await anext(following)
            assert (event.name, event.method, event.body, event.position) == ("enter", "patch", b'{"price":4}', "3")
            ground.write(("shop~/dear", "patch", {"price": 5}))
            assert [event.name for event in await anext(following)] == ["change"]
            ground.put("shop~/other", price=50)
            ground.put("shop~/dear", price=50)
            (event,) = await anext(following)
            assert (event.name, event.path, event.body, event.revision) == ("leave", "shop~/dear", b"", 6)
            ground.write(("shop~", "delete", None))
            assert [(event.name, event.path) for event in await anext(following)] == [("leave", "shop~/cheap")]
            ground.put("shop~/cheap", price=1)
            assert [event.name for event in await anext(following)] == ["enter"]

    asyncio.run(follow())


@pytest.mark.parametrize("seed", range(6))
def test_a_client_has_what_the_filter_accepts(ground: FeedGround, seed: int) -> None:
    random = Random(seed)
    paths = [f"shop~/{item}" for item in range(8)]
    for _ in range(20):
        ground.random_write(random, paths)

    def write() -> None:
        for _ in range(100):
            ground.random_write(random, paths, apply=random.random() < 0.8)
        ground.put(END, n=1)

    async def follow() -> None:
        queries, state = live_queries(ground), dict[str, bytes]()
        writing = asyncio.create_task(asyncio.to_thread(write))
        async with asyncio.timeout(60), aclosing(queries.follow(SHOP, "n < 50")) as following:
            while END not in state:
                for event in await anext(following):
                    _apply(event, state)
        await writing
        expected = replayed(ground.history("shop~"), ground.revisions["shop~"])
        assert state == {path: body for path, body in expected.items() if msgspec.json.decode(body).get("n", 99) < 50}

    asyncio.run(follow())


def _apply(event: FeedEvent, state: dict[str, bytes]) -> None:
    if event.kind in ("reset", "end"):
        return
    if event.kind == "leave" or event.method == "delete":
        assert event.path in state
        del state[event.path]
    else:
        assert (event.kind == "change") == (event.path in state) or event.kind == "snapshot"
        state[event.path] = event.body


def test_queries_with_one_filter_share_their_events(ground: FeedGround) -> None:
    ground.put("shop~/a", price=1)

    async def follow() -> None:
        queries = live_queries(ground)
        one, two = queries.follow(SHOP, "price < 10"), queries.follow(SHOP, "price < 10")
        async with aclosing(one), aclosing(two):
            await asyncio.gather(anext(one), anext(two))
            tasks = asyncio.gather(anext(one), anext(two))
            while ground.followers(SHOP.uri) < 2:
                await asyncio.sleep(0)
            ground.put("shop~/a", price=2)
            (first,), (second,) = await tasks
            assert first is second
            assert first.sse() is second.sse()

    asyncio.run(follow())


def test_the_loop_runs_while_a_filter_is_asked(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the follower that asked first goes away meanwhile."""
    monkeypatch.setattr(live, "compile_filter", WaitingFilter.compiled)
    ground.put("shop~/a", price=1)

    async def follow() -> None:
        queries = live_queries(ground)
        one, two = queries.follow(SHOP, "price < 9"), queries.follow(SHOP, "price < 9")
        async with aclosing(one), aclosing(two):
            for price in (2, 3):
                WaitingFilter.begin()
                tasks = [asyncio.create_task(anext(following)) for following in (one, two)]  # type: ignore[arg-type]
                if price == 3:
                    await until(lambda: ground.followers(SHOP.uri) == 2)
                    ground.put("shop~/a", price=price)
                await until(WaitingFilter.began.is_set)
                if price == 3:
                    tasks[0].cancel()
                    await asyncio.wait(tasks[:1])
                WaitingFilter.turn.set()
                assert [event.name for event in await tasks[1]][:1] == ["snapshot:put" if price == 2 else "change"]

    asyncio.run(follow())


def test_a_filter_has_the_time_of_a_query_for_a_portion(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    class SlowFilter(Filter):
        def accepts(self, body: Mapping[str, Any]) -> bool:
            clock.advance(6)
            return super().accepts(body)

    monkeypatch.setattr(live, "compile_filter", lambda text: SlowFilter(text, compile_filter(text).tree))
    for number in range(4):
        ground.put(f"shop~/{number}", price=number)

    async def follow() -> None:
        queries = live_queries(ground, clock)
        with pytest.raises(QueryTimeout, match="longer than 15 s for 4 items"):
            await anext(queries.follow(SHOP, "price < 2"))

    asyncio.run(follow())


def test_what_is_refused(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        ground.put(f"shop~/{number}", price=number)
    monkeypatch.setattr(live, "MOST_ITEMS", 2)

    async def follow() -> None:
        queries = live_queries(ground)
        with pytest.raises(BadFilter):
            await anext(queries.follow(SHOP, "price <"))
        with pytest.raises(BadFilter):
            await anext(queries.follow(SHOP, "price < 10"))
        with pytest.raises(BadInput):
            await anext(queries.follow(parse_path("shop~/a"), "price < 10"))
        assert [event.name for event in await anext(queries.follow(SHOP, "price < 2", after=1))] == ["reset"]

    asyncio.run(follow())
