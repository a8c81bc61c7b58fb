from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headwater.client.local import LocalLog, local_log
from headwater.core.clock import SystemClock
from headwater.core.errors import Closed, UnknownTopic, Unreachable
from headwater.core.settings import LogSettings, Settings
from headwater.core.units import Size
from headwater.log import Log
from headwater.log.record import Record

pytestmark = pytest.mark.anyio


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(log=LogSettings(segment=Size(1 << 20))), tmp_path, SystemClock())
    try:
        yield opened
    finally:
        await opened.aclose()


@pytest.fixture
def appending() -> Callable[[], list[str]]:
    """The names of the threads that append, without those of other tests."""
    before = set(threading.enumerate())
    return lambda: [one.name for one in threading.enumerate() if one not in before and one.name.startswith("headwater-append")]


async def test_new_topics_have_the_configured_settings(log: LocalLog) -> None:
    assert (await log.create_topic("t")).settings.segment == 1 << 20


async def test_making_a_topic_says_whether_it_is_new(log: LocalLog) -> None:
    assert [(await log.make_topic("t"))[1] for _ in range(2)] == [True, False]


async def test_a_name_that_was_mistyped_leaves_no_thread(log: LocalLog, appending: Callable[[], list[str]]) -> None:
    with pytest.raises(UnknownTopic):
        await log.append("typo", 0, [Record(None, b"")])
    assert appending() == []


async def test_a_deleted_topics_thread_ends_and_a_new_one_of_its_name_works(log: LocalLog, appending: Callable[[], list[str]]) -> None:
    for _ in range(2):
        await log.create_topic("t")
        assert list(await log.append("t", 0, [Record(None, b"")])) == [0]
        assert appending() == ["headwater-append-t-0"]
        await log.delete_topic("t")
        assert appending() == []


async def test_many_followers_see_the_same(log: LocalLog) -> None:
    await log.create_topic("t")

    async def follow() -> list[int | None]:
        seen: list[int | None] = []
        async for record in log.tail("t", 0, 0):
            seen.append(record.offset)
            if len(seen) == 20:
                return seen
        return seen

    async with asyncio.timeout(30):
        followers = [asyncio.create_task(follow()) for _ in range(50)]
        for _ in range(20):
            await log.append("t", 0, [Record(None, b"")])
        assert await asyncio.gather(*followers) == [list(range(20))] * 50


async def test_closing_ends_what_waits(log: LocalLog) -> None:
    await log.create_topic("t")
    waiting = asyncio.create_task(anext(aiter(log.tail("t", 0))))
    await log.bounds("t", 0)
    await asyncio.sleep(0.01)
    await log.aclose()
    with pytest.raises(Closed):
        await waiting


async def test_a_log_that_cannot_be_opened_says_so_to_every_call_and_can_be_closed() -> None:
    def fail() -> Log:
        raise Unreachable("No broker answers.", hint="Start one.")

    log = LocalLog(fail)
    for _ in range(2):
        with pytest.raises(Unreachable):
            await log.topics()
    await log.aclose()


async def test_appends_under_way_end_before_closing(log: LocalLog) -> None:
    await log.create_topic("t")
    await log.append("t", 0, [Record(None, b"first")])
    under_way = [asyncio.create_task(log.append("t", 0, [Record(None, b"%d" % n)])) for n in range(100)]
    await asyncio.sleep(0)
    await log.aclose()
    assert sorted(offset for answer in await asyncio.gather(*under_way) for offset in answer) == list(range(1, 101))
