"""Ten callers on ten tables of a region: on a disk that fails, in a process that is killed, and in one that forks or stands still."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import HeadwaterError, OutcomeUnknown
from headwater.core.files import Files
from headwater.log import Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.testing.faults import FailingFiles
from headwater.testing.wal_history import RegionHistory, live
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("wal", 2**64 - 1)
STEPS = 8
ALL = os.environ.get("SOAK_INJECTIONS") == "all"
ROUNDS = int(os.environ.get("SOAK_KILL_ROUNDS", "6"))
KINDS = {"write": ["pwritev"], "sync": ["datasync", "sync"], "rename": ["rename"], "unlink": ["unlink", "truncate"]}


def made(data: Path) -> Path:
    with EmbeddedLog(data) as log:
        create_region(log, TOPICS, TopicSettings(segment=3000))
    return data


async def lived(data: Path, files: Files, random: Random, tell: Callable[..., None], name: str, steps: int = STEPS) -> None:
    """One life of the region, from opening to closing, whatever fails."""
    try:
        with EmbeddedLog(data, files=files) as log, LocalOwnership(log, data / "owners", files=files) as owners:
            region = await open_region(log, owners, TOPICS)
            await live(region, random, tell, steps=steps, name=name)
            await region.close_gracefully()
    except HeadwaterError:
        return


async def checked(data: Path, history: RegionHistory) -> None:
    """The region as the next process finds it; and it goes on."""
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        if log.bounds(TOPICS.data, 0).start == 0:
            assert recover(log, TOPICS).meta == full_scan(log, TOPICS).meta
        region = await open_region(log, owners, TOPICS)
        await history.check(region)
        await live(region, Random(9), history.hear, steps=2, name=f"check-{len(history.calls)}")
        await history.check(region)
        await region.clean()
        await history.check(region)
        live_now = [(entry.table, entry.sequence, entry.payload) async for entry in region.scan()]
        await region.close_gracefully()
        again = await open_region(log, owners, TOPICS)
        assert again.recovered.records == 0
        assert [(entry.table, entry.sequence, entry.payload) async for entry in again.scan()] == live_now
        await again.close()


def calls(data: Path, only: list[str]) -> int:
    files, history = FailingFiles(only=only), RegionHistory()
    asyncio.run(lived(made(data), files, Random(1), history.hear, "whole"))
    assert not history.errors
    return files.calls


@pytest.mark.parametrize("kind", KINDS)
def test_whichever_call_fails_nothing_acknowledged_is_lost(memory_path: Path, kind: str) -> None:
    total = calls(memory_path / "whole", KINDS[kind])
    assert total > 2
    every = 1 if ALL else max(1, total // 5)
    for at in range(1 + total // 7 % every, total + 1, every):
        data, history = made(memory_path / f"{at}"), RegionHistory()
        number = (errno.EIO, errno.ENOSPC)[at % 2]
        files = FailingFiles(at, only=KINDS[kind], number=number, forever=at % 5 == 0)
        asyncio.run(lived(data, files, Random(1), history.hear, "first"))
        asyncio.run(checked(data, history))


@pytest.mark.parametrize("graceful", [True, False])
def test_a_disk_that_fails_while_the_region_is_closed_leaves_it_free_and_whole(memory_path: Path, graceful: bool) -> None:
    data, files, history = made(memory_path / "data"), FailingFiles(forever=True), RegionHistory()

    async def life() -> None:
        log = EmbeddedLog(data, files=files)
        owners = LocalOwnership(log, data / "owners", files=files)
        region = await open_region(log, owners, TOPICS)
        await live(region, Random(1), history.hear, steps=2, name="life")
        living = asyncio.create_task(live(region, Random(2), history.hear, steps=50, name="last"))
        await asyncio.sleep(0)
        files.fail_at = files.calls + 3
        if graceful:
            with pytest.raises(HeadwaterError):
                await region.close_gracefully()
        await region.close()
        await region.close_gracefully()  # twice is no error
        await living
        assert owners.owner(TOPICS.data, 0) is None
        owners.close()
        with suppress(HeadwaterError):  # what a failed sync leaves is repaired once nobody has the log open
            log.close()
        await checked(data, history)

    asyncio.run(life())


class Doubtful:
    """A Writer that fails at its third append, after the records have arrived or before: its caller cannot know."""

    def __init__(self, writer: Writer, random: Random) -> None:
        self._writer, self._left, self._arrives = writer, random.randint(1, 3), random.random() < 0.5

    def append(self, records: Sequence[Record]) -> Sequence[int]:
        self._left -= 1
        if self._left:
            return self._writer.append(records)
        if self._arrives:
            self._writer.append(records)
        raise OutcomeUnknown("The broker went away.")

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_writes_of_unknown_outcome_are_adopted_or_not_and_never_doubled(memory_path: Path, seed: int) -> None:
    data, history, random = made(memory_path / "data"), RegionHistory(), Random(seed)

    async def life() -> None:
        with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
            region = await open_region(log, owners, TOPICS)
            owned = region._owned
            renew = owned.renew

            def renewed() -> Writer:
                owned.writer = Doubtful(renew(), random)  # type: ignore[assignment]
                return owned.writer

            owned.renew = renewed  # type: ignore[method-assign]
            renewed()
            await live(region, random, history.hear, steps=STEPS, name="life")
            await history.check(region)
            await region.close()

    asyncio.run(life())
    assert "OutcomeUnknown" in history.errors
    asyncio.run(checked(data, history))


@pytest.mark.parametrize("seed", range(max(2, ROUNDS // 10)))
def test_whenever_the_process_is_killed_nothing_acknowledged_is_lost(memory_path: Path, seed: int) -> None:
    """One region, many lives: each is killed after some lines that it told, wherever it is by then."""
    data, history, random = made(memory_path / "data"), RegionHistory(), Random(seed)
    for number in range(min(ROUNDS, 10)):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                asyncio.run(lived(data, Files(), random, partial(_say, write), f"{number}", steps=1000))
            finally:
                os._exit(1)
        os.close(write)
        told, lines = b"", random.randint(1, 400)
        while told.count(b"\n") < lines and (more := os.read(read, 4096)):
            told += more
        os.kill(child, signal.SIGKILL)
        while more := os.read(read, 1 << 16):
            told += more
        os.close(read)
        os.waitpid(child, 0)
        history.read(told)
        asyncio.run(checked(data, history))
    assert history.acknowledged > 20


def _say(fd: int, line: object) -> None:
    os.write(fd, json.dumps(line).encode() + b"\n")
