"""A region on a full disk: marks, drops and cleans are how its space comes back, so they work there, and so does its opening."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import DiskFull
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.reserve import NAME, SIZE
from headwater.log.record import TopicSettings
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_outcomes import TableMark
from headwater.wal.region_topics import RegionTopics
from headwater.wal.verification import verify
from headwater.wal.view import RegionView

TOPICS = RegionTopics("wal", 7)
TABLES = 8


def fill(disk: Path) -> None:
    """Take the last free byte."""
    fd = os.open(disk / "ballast", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        with pytest.raises(OSError, match="No space"):
            while True:
                os.write(fd, bytes(512))
    finally:
        os.close(fd)


@pytest.mark.parametrize("reopen", [False, True])
def test_a_region_that_has_filled_its_disk_is_flushed_and_cleaned(small_disk: Path, reopen: bool) -> None:
    asyncio.run(flushed_and_cleaned(small_disk, reopen))
    gc.collect()  # errors keep files open, which keep the disk mounted


async def flushed_and_cleaned(small_disk: Path, reopen: bool) -> None:
    data, last = small_disk / "data", dict.fromkeys(range(TABLES), 0)
    log = EmbeddedLog(data)
    create_region(log, TOPICS, TopicSettings(segment=50_000))
    owners = LocalOwnership(log, data / "owners")
    region = await open_region(log, owners, TOPICS)
    with pytest.raises(DiskFull):
        while True:
            for table in last:
                last[table] = await region.write(table, [bytes(1000)])
    if reopen:
        await region.close()
        owners.close()
        log.close()
    fill(small_disk)
    if reopen:
        log = EmbeddedLog(data)
        owners = LocalOwnership(log, data / "owners")
        region = await open_region(log, owners, TOPICS)
    for table in range(1, TABLES):
        with pytest.raises(DiskFull):
            await region.write(table, [bytes(5000)])
        assert (await region.mark_delete_up_to(table, last[table])).sequence == last[table]
    await region.drop_table(0)
    assert (await region.clean()).removed >= sum(last.values())
    for table in range(1, TABLES):
        assert await region.write(table, [bytes(1000)]) == last[table] + 1
    assert [entry.sequence async for entry in region.scan()] == [last[table] + 1 for table in range(1, TABLES)]
    await region.close()
    owners.close()
    log.close()


def test_writers_that_go_on_take_nothing_of_what_marks_need(small_disk: Path) -> None:
    asyncio.run(marked_beside_writers(small_disk))
    gc.collect()


async def marked_beside_writers(small_disk: Path) -> None:
    """Two regions on one full disk: each table is marked while others write, in the same region and in the other one."""
    data, tables = small_disk / "data", 100
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        regions = []
        for number in (7, 8):
            create_region(log, RegionTopics("wal", number), TopicSettings(segment=50_000))
            regions.append(await open_region(log, owners, RegionTopics("wal", number)))
        last = [dict.fromkeys(range(tables), 0) for _ in regions]
        with pytest.raises(DiskFull):
            while True:
                for region, lasts in zip(regions, last, strict=True):
                    for table in lasts:
                        lasts[table] = await region.write(table, [bytes(1000)])
        fill(small_disk)
        for table in range(tables):
            for region, lasts in zip(regions, last, strict=True):
                beside = [one.write((table + 1) % tables, [bytes(900)]) for one in regions for _ in range(3)]
                outcome, *_ = await asyncio.gather(region.mark_delete_up_to(table, lasts[table]), *beside, return_exceptions=True)
                assert outcome == TableMark(lasts[table])
        for region, lasts in zip(regions, last, strict=True):
            assert (await region.clean()).removed >= sum(lasts.values())
            await region.close()
        for number in (7, 8):
            verify(RegionView(log, RegionTopics("wal", number)))
        assert (data / "log" / NAME).stat().st_size == SIZE
