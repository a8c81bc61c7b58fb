"""The process that copies journals: started by a server, and alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.journal.ground import Ground, appended, eventually
from tests.until import until

from headwater.client.journal_performer import JournalPerformer
from headwater.client.local import local_log
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings, StoreSettings
from headwater.journal.leader import LocalReplicatorLock
from headwater.journal.replicator import lock_path
from headwater.journal.replicator_process import FAILED, order
from headwater.server.journal_replicator import ReplicatorChild, closes, opens
from headwater.testing.clock import ManualClock

NEVER = SparkSettings(start="never")


def test_a_child_that_dies_is_started_again_and_ends_with_the_server(tmp_path: Path) -> None:
    ground = Ground(tmp_path, SystemClock())
    ground.topic()

    async def run() -> int:
        child = ReplicatorChild(Settings(data=tmp_path, spark=NEVER))
        child.start()
        child.start()
        ground.append(appended("a", 1))
        await until(lambda: ground.pointer() == 0)
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.pid not in (None, first))
        ground.append(appended("a", 2))
        await until(lambda: ground.pointer() == 1)
        last = child.pid
        await child.end()
        await child.end()
        assert child.deaths == 1
        assert child.pid is None
        return last or 0

    last = asyncio.run(run())
    assert not Path(f"/proc/{last}").exists()
    ground.close()


def test_a_server_without_journals_starts_no_process(tmp_path: Path) -> None:
    answers = iter([False, False, True])
    asked: list[bool] = []

    async def needed() -> bool:
        asked.append(next(answers))
        return asked[-1]

    async def run() -> None:
        clock = ManualClock()
        child = ReplicatorChild(Settings(data=tmp_path, spark=NEVER), needed=needed, clock=clock)
        child.start()
        await until(lambda: len(asked) == 1)
        assert child.pid is None
        await clock.run(10)
        await until(lambda: child.pid is not None)
        assert asked == [False, False, True]
        await child.end()

    asyncio.run(run())


def test_the_hooks_of_the_part_start_it_for_the_first_topic_and_end_it(tmp_path: Path) -> None:
    ground = Ground(tmp_path, SystemClock())
    ground.topic()
    ground.append(appended("a", 1))

    async def run() -> None:
        settings = Settings(data=tmp_path, spark=NEVER)
        log = local_log(settings, tmp_path, SystemClock())
        performer = JournalPerformer(log=log, settings=settings)
        await opens(performer, log)
        await until(lambda: ground.pointer() == 0)
        await closes(performer, log)
        await closes(performer, log)
        await log.aclose()

    asyncio.run(run())
    assert LocalReplicatorLock(lock_path(tmp_path)).holder() is None
    ground.close()


@contextmanager
def started(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater.journal.replicator_process"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(order(settings))
    process.stdin.flush()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", ["SIGTERM", "closed input"])
def test_it_copies_until_its_parent_ends_it(tmp_path: Path, how: str) -> None:
    ground = Ground(tmp_path, SystemClock())
    ground.topic()
    ground.append(appended("a", 1))
    with started(Settings(data=tmp_path, spark=SparkSettings(start="never"))) as process:
        eventually(lambda: ground.pointer() == 0 or process.poll() is not None)
        ground.append(appended("a", 2))
        eventually(lambda: ground.pointer() == 1 or process.poll() is not None)
        assert process.stdin is not None
        if how == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
            process.stdin = None
        assert process.wait(240) == 0
    assert ground.pointer() == 1
    ground.close()


def test_it_tells_why_it_cannot_run(tmp_path: Path) -> None:
    cassandra = StoreSettings(engine="cassandra")  # and no node is named
    with started(Settings(data=tmp_path, store=cassandra, spark=SparkSettings(start="never"))) as process:
        assert process.wait(240) == FAILED
        assert process.stderr is not None
        assert b"contact_points" in process.stderr.read()
