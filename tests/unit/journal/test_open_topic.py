"""A topic that is open: its partitions and their writers."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.clock import SystemClock
from headwater.core.errors import BadInput
from headwater.journal.append_draft import plain_draft
from headwater.journal.open_topic import OpenTopic
from headwater.journal.settings import JournalSettings
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.topics import JournalTopics
from headwater.journal.write import Appended
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.partitioner import partition_for


@pytest.mark.anyio
async def test_journals_have_their_partition_and_its_writer(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data") as log, SqliteJournalStore(tmp_path / "store") as store:
        topic, _ = JournalTopics(log, JournalSettings()).create("bank", 8)
        opened = OpenTopic(log, lambda: store, topic, writers="owner", settings=JournalSettings(), clock=SystemClock())
        ids = [f"id-{number}" for number in range(50)]
        assert [opened.place(id) for id in ids] == [partition_for(id.encode(), 8) for id in ids]
        assert opened.partition("id-1").number == opened.place("id-1")
        assert opened.writer("id-1") is opened.writer("id-1")
        placed = await opened.writer("id-1").write(plain_draft("id-1", 1))
        assert isinstance(placed, Appended)
        assert placed.partition == opened.place("id-1")
        with pytest.raises(BadInput):
            opened.place("")
        await opened.aclose()
        await opened.aclose()
