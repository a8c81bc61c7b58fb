from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Closed, NotOwner, OwnedTopic, Timeout
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.wal.region import create_region, open_region
from headwater.wal.region_topics import RegionTopics

pytestmark = pytest.mark.anyio


async def test_a_region_is_created_once(log: EmbeddedLog) -> None:
    assert not create_region(log, TOPICS)
    assert create_region(log, RegionTopics("wal", 8))
    assert {topic.settings.owner for topic in log.topics()} == {"wal"}
    with pytest.raises(OwnedTopic):
        log.append(TOPICS.data, 0, [Record(b"k", b"v")])


async def test_calls_of_one_moment_share_a_batch_and_keep_their_order(opened: OpenRegion) -> None:
    region = await opened()
    assert await asyncio.gather(*(region.write(1, [b"%d" % number]) for number in range(200))) == list(range(1, 201))
    assert [entry.payload async for entry in region.read(1)] == [b"%d" % number for number in range(200)]


async def test_a_write_that_takes_too_long_is_told_and_may_arrive(opened: OpenRegion) -> None:
    region = await opened()
    with region._writer.locked:  # the appender's thread waits here, with the record in the log
        with pytest.raises(Timeout, match="1 to 2 of table 1 are not durable"):
            await region.write(1, [b"a", b"b"], timeout=0.01)
    assert await region.write(1, [b"c"], timeout=60) == 3


async def test_a_cancelled_write_keeps_its_number(opened: OpenRegion) -> None:
    region = await opened()
    with region._writer.locked:
        task = asyncio.create_task(region.write(1, [b"a"]))
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await region.write(1, [b"b"]) == 2
    assert [entry.payload async for entry in region.read(1)] == [b"a", b"b"]


async def test_a_mark_during_a_move_waits_for_it(opened: OpenRegion) -> None:
    region = await opened()
    for number in range(1, 1201):
        await region.write(1, [b"%d" % number]) if number % 400 == 0 else None
    await asyncio.gather(*(region.write(1, [b"x"]) for _ in range(1500)))
    moved, marked = await asyncio.gather(region.move(1), region.mark_delete_up_to(1, 600))
    assert marked.sequence == 600
    assert 0 < moved <= 1503
    assert [entry.sequence async for entry in region.read(1)] == list(range(601, 1504))


async def test_closing_twice_is_no_error_and_frees_the_region(opened: OpenRegion, log: EmbeddedLog, tmp_path: Path) -> None:
    region = await opened()
    with LocalOwnership(log, tmp_path / "owners") as other:
        with pytest.raises(NotOwner):
            await open_region(log, other, TOPICS)
        await region.close()
        await region.close()
        with pytest.raises(Closed):
            await region.mark_delete_up_to(1, 1)
        await (await open_region(log, other, TOPICS)).close()


async def test_a_clean_of_everything_leaves_no_closed_segment(opened: OpenRegion, log: EmbeddedLog, tmp_path: Path) -> None:
    region = await opened()
    for _ in range(40):
        await region.write(1, [bytes(500)])
    await region.mark_delete_up_to(1, 40)
    await region.clean()
    folder = tmp_path / "log" / TOPICS.data / "0"
    assert sum(path.stat().st_size for path in folder.glob("*.log")) == 0
    assert await region.write(1, [b"x"]) == 41
