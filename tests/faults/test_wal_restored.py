"""Topics of a region that come from elsewhere: from another installation with the same names, or with another description."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Damaged, MetaLost
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import PART, RegionTopics
from headwater.wal.verification import verify
from headwater.wal.view import RegionView

TOPICS = RegionTopics("wal", 7)


def installation(data: Path, word: bytes, *, flushed: int, cleans: bool) -> Path:
    """A region with as many records as any other one of these, and another history."""

    async def fill() -> None:
        with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
            create_region(log, TOPICS, TopicSettings(segment=700))
            region = await open_region(log, owners, TOPICS)
            for number in range(12):
                await region.write(number % 2, [word * 20])
            await region.mark_delete_up_to(0, flushed)
            await region.mark_delete_up_to(1, flushed)
            if cleans:
                assert (await region.clean()).start > 0
            await region.close_gracefully()

    asyncio.run(fill())
    return data


def swapped(data: Path, other: Path, topic: str) -> None:
    shutil.rmtree(data / "log" / topic)
    shutil.copytree(other / "log" / topic, data / "log" / topic)


def test_snapshots_of_another_installation_are_told_and_do_not_count(tmp_path: Path) -> None:
    data = installation(tmp_path / "ours", b"ours", flushed=1, cleans=False)
    swapped(data, installation(tmp_path / "theirs", b"theirs", flushed=5, cleans=False), TOPICS.meta)
    with EmbeddedLog(data) as log:
        found = recover(log, TOPICS)
        assert found.meta == full_scan(log, TOPICS).meta
        assert found.snapshots == []
        assert "is of another topic wal_data_7, of generation" in found.problems[0]
        assert verify(RegionView(log, TOPICS)).problems == found.problems


def test_a_log_without_its_beginning_does_not_take_snapshots_of_another_installation(tmp_path: Path) -> None:
    data = installation(tmp_path / "ours", b"ours", flushed=4, cleans=True)
    swapped(data, installation(tmp_path / "theirs", b"theirs", flushed=5, cleans=True), TOPICS.meta)
    with EmbeddedLog(data) as log, pytest.raises(MetaLost, match="is of another topic wal_data_7"):
        recover(log, TOPICS)


def test_a_log_that_was_made_anew_beside_its_snapshots_is_told_and_accepted(tmp_path: Path) -> None:
    data = installation(tmp_path / "ours", b"ours", flushed=1, cleans=False)
    shutil.rmtree(data / "log" / TOPICS.data)
    with EmbeddedLog(data) as log:
        log.create_topic(TOPICS.data, part=PART)
        with pytest.raises(Damaged, match=r"ends at 0, and a snapshot knows those before 14: it is newer, and of another topic"):
            recover(log, TOPICS)
        with LocalOwnership(log, data / "owners") as owners:
            asyncio.run(accepted(log, owners))
        assert recover(log, TOPICS).meta.tables == {}  # accepted once and for all


async def accepted(log: EmbeddedLog, owners: LocalOwnership) -> None:
    region = await open_region(log, owners, TOPICS, accept_loss=True)
    await region.close()


def test_both_topics_of_a_backup_belong_together(tmp_path: Path) -> None:
    data = installation(tmp_path / "ours", b"ours", flushed=4, cleans=True)
    other = installation(tmp_path / "theirs", b"theirs", flushed=5, cleans=True)
    for topic in (TOPICS.data, TOPICS.meta):
        swapped(data, other, topic)
    with EmbeddedLog(data) as log, EmbeddedLog(other) as theirs:
        found = recover(log, TOPICS)
        assert (found.meta, found.problems) == (recover(theirs, TOPICS).meta, [])
