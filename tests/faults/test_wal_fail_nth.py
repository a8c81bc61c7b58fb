"""A region on a disk that fails: at every call in turn, for once or for good, and on a process that is killed at every moment."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from random import Random

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import HeadwaterError
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.testing.faults import DyingFiles, FailingFiles
from headwater.testing.wal_history import RegionHistory, live
from headwater.testing.wal_model import RegionModel
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("wal", 7)
STEPS = 25
EVERY = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 9


async def lived(data: Path, files: FailingFiles, model: RegionModel, steps: int = STEPS) -> None:
    """Open the region, take the steps, and close: whatever fails."""
    try:
        log = EmbeddedLog(data, files=files)
    except HeadwaterError:
        return
    with log, LocalOwnership(log, data / "owners", files=files) as owners:
        try:
            region = await open_region(log, owners, TOPICS)
        except HeadwaterError:
            return
        for _ in range(steps):
            await model.step(region)
        try:
            await region.close_gracefully()
        except HeadwaterError:
            await region.close()


async def checked(data: Path, model: RegionModel) -> None:
    """The region as a new process finds it, and what it takes afterwards."""
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        if log.bounds(TOPICS.data, 0).start == 0:
            assert recover(log, TOPICS).meta == full_scan(log, TOPICS).meta
        region = await open_region(log, owners, TOPICS)
        await model.check(region)
        for _ in range(5):
            await model.step(region)
        await model.check(region)
        await region.close()


def made(data: Path) -> None:
    with EmbeddedLog(data) as log:
        create_region(log, TOPICS, TopicSettings(segment=4096))


def calls(data: Path, seed: int) -> int:
    """How many calls a life without failures makes."""
    files = FailingFiles()
    made(data)
    asyncio.run(lived(data, files, RegionModel(Random(seed))))
    return files.calls


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("seed", [1, 2])
def test_one_failing_call_loses_nothing(tmp_path: Path, seed: int, number: int) -> None:
    total = calls(tmp_path / "whole", seed)
    assert total > 100
    for at in range(1 + seed % EVERY, total, EVERY):
        data, model = tmp_path / f"{at}", RegionModel(Random(seed))
        made(data)
        asyncio.run(lived(data, FailingFiles(at, number=number), model))
        asyncio.run(checked(data, model))


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_one_failing_call_among_many_callers_loses_nothing(tmp_path: Path, number: int) -> None:
    """Five callers share batches: the failure of one is that of all, and what is numbered behind it is written by nobody."""
    files = FailingFiles()
    made(tmp_path / "whole")
    asyncio.run(crowded(tmp_path / "whole", files, RegionHistory()))
    assert files.calls > 50
    for at in range(1, files.calls, 2 * EVERY):  # the batches of two runs differ, and so does which of their calls fails
        data, history = tmp_path / f"{at}", RegionHistory()
        made(data)
        asyncio.run(crowded(data, FailingFiles(at, number=number), history))
        assert "Fenced" not in history.errors
        asyncio.run(kept(data, history))


async def crowded(data: Path, files: FailingFiles, history: RegionHistory) -> None:
    """Open the region, let callers live, and close: whatever fails."""
    try:
        log = EmbeddedLog(data, files=files)
    except HeadwaterError:
        return
    with log, LocalOwnership(log, data / "owners", files=files) as owners:
        try:
            region = await open_region(log, owners, TOPICS)
        except HeadwaterError:
            return
        await live(region, Random(5), history.hear, steps=6, name="crowd", callers=5)
        try:
            await region.close_gracefully()
        except HeadwaterError:
            await region.close()


async def kept(data: Path, history: RegionHistory) -> None:
    """What was acknowledged is there for a new process, which can go on."""
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        if log.bounds(TOPICS.data, 0).start == 0:
            assert recover(log, TOPICS).meta == full_scan(log, TOPICS).meta
        region = await open_region(log, owners, TOPICS)
        await history.check(region)
        await live(region, Random(6), history.hear, steps=2, name="after", callers=5)
        await history.check(region)
        await region.close()


def test_a_disk_that_fails_for_good_loses_nothing(tmp_path: Path) -> None:
    total = calls(tmp_path / "whole", 3)
    for at in range(1, total, 4 * EVERY):
        data, model = tmp_path / f"{at}", RegionModel(Random(3))
        made(data)
        asyncio.run(lived(data, FailingFiles(at, forever=True), model))
        asyncio.run(checked(data, model))


def test_a_process_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    """The child writes each acknowledged step into a pipe, as the sequence that it was given."""
    files = DyingFiles()
    made(tmp_path / "whole")
    asyncio.run(lived(tmp_path / "whole", files, RegionModel(Random(4))))
    for at in range(1, files.calls, 4 * EVERY):
        data = tmp_path / f"{at}"
        made(data)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            asyncio.run(_told(data, DyingFiles(at), write))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as told:
            acknowledged = [tuple(map(int, line.split())) for line in told.read().splitlines()]
        os.waitpid(child, 0)
        asyncio.run(_compared(data, acknowledged))


async def _told(data: Path, files: DyingFiles, write: int) -> None:
    """Write to three tables in turn, snapshot, mark and clean; tell every acknowledged sequence and mark."""
    with EmbeddedLog(data, files=files) as log, LocalOwnership(log, data / "owners", files=files) as owners:
        region = await open_region(log, owners, TOPICS)
        for step in range(30):
            table = step % 3
            last = await region.write(table, [b"%d-%d" % (table, step)] * (1 + step % 2))
            os.write(write, b"%d %d 0\n" % (table, last))
            if step % 7 == 6:
                done = await region.mark_delete_up_to(table, last - 1)
                os.write(write, b"%d %d 1\n" % (table, done.sequence))
            if step % 10 == 9:
                await region.clean()
        await region.close_gracefully()


async def _compared(data: Path, acknowledged: list[tuple[int, ...]]) -> None:
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        region = await open_region(log, owners, TOPICS)
        for table in range(3):
            written = max((last for number, last, mark in acknowledged if number == table and not mark), default=0)
            flushed = max((last for number, last, mark in acknowledged if number == table and mark), default=0)
            found = [entry.sequence async for entry in region.read(table)]
            assert region.sequence_num(table) >= written
            assert found == list(range(found[0], found[-1] + 1)) if found else region.sequence_num(table) >= written
            if written > flushed:
                assert found[-1] >= written
                assert found[0] >= flushed + 1
            before = region.sequence_num(table)
            assert await region.write(table, [b"next"]) == before + 1
        await region.close()
