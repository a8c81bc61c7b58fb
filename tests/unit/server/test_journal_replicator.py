from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.unit.journal.ground import Ground, appended
from tests.until import until

from headwater.client.journal_performer import JournalPerformer
from headwater.client.local import local_log
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings
from headwater.journal.leader import LocalReplicatorLock
from headwater.journal.replicator import lock_path
from headwater.journal.settings import JournalSettings
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


def test_the_setting_keeps_a_server_from_replicating(tmp_path: Path) -> None:
    async def run() -> None:
        child = ReplicatorChild(Settings(data=tmp_path, sections={"journal": JournalSettings(replicate=False)}))
        child.start()
        assert not child.wanted
        await child.end()
        assert child.pid is None

    asyncio.run(run())


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
