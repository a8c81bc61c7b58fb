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
from headwater.log.record import TopicSettings
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

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
