from __future__ import annotations

import asyncio
from pathlib import Path

from headwater.core.settings import Settings
from headwater.journal.settings import JournalSettings
from headwater.server.journal_replicator import ReplicatorChild


def test_the_setting_keeps_a_server_from_replicating(tmp_path: Path) -> None:
    async def run() -> None:
        child = ReplicatorChild(Settings(data=tmp_path, sections={"journal": JournalSettings(replicate=False)}))
        child.start()
        assert not child.wanted
        await child.end()
        assert child.pid is None

    asyncio.run(run())
