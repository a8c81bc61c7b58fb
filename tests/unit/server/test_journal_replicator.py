from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.unit.journal.ground import Ground, appended
from tests.until import until

from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings
from headwater.journal.settings import JournalSettings
from headwater.server.journal_replicator import ReplicatorChild

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
