"""Rot in the files of a region: what is read is right, or an error says what is wrong."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.clock import SystemClock
from headwater.core.errors import Damaged
from headwater.core.files import Files, boot_id
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.repair import repair
from headwater.log.record import TopicSettings
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics
from headwater.wal.verification import verify
from headwater.wal.view import RegionView

TOPICS = RegionTopics("wal", 7)
EVERY = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 23
Rows = list[tuple[int, int, bytes]]


@pytest.fixture
def data(memory_path: Path) -> Path:
    """A region whose log no longer begins at 0, with two snapshots and a tail."""

    async def fill() -> None:
        with EmbeddedLog(memory_path / "data") as log, LocalOwnership(log, memory_path / "data" / "owners") as owners:
            create_region(log, TOPICS, TopicSettings(segment=700))
            region = await open_region(log, owners, TOPICS)
            for number in range(12):
                await region.write(number % 3, [b"payload %d" % number] * (1 + number % 2))
            await region.mark_delete_up_to(0, 4)
            await region.mark_delete_up_to(1, 3)
            await region.mark_delete_up_to(2, 3)
            assert (await region.clean()).start > 0
            await region.write(1, [b"tail"])
            await region.snapshot()
            await region.write(1, [b"last"])
            await region.close()

    asyncio.run(fill())
    return memory_path / "data"


def found(data: Path, **how: bool) -> Rows:
    """Everything live, as a new process finds it."""

    async def read() -> Rows:
        with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
            region = await open_region(log, owners, TOPICS, **how)
            rows = [(entry.table, entry.sequence, entry.payload) async for entry in region.scan()]
            await region.close()
            return rows

    return asyncio.run(read())


@pytest.mark.parametrize("topic", [TOPICS.data, TOPICS.meta])
def test_a_flipped_bit_is_told_and_never_read(data: Path, memory_path: Path, topic: str) -> None:
    expected, told = found(data), 0
    for path in sorted((data / "log" / topic / "0").glob("*.log")):
        size = len(path.read_bytes().rstrip(b"\0"))
        for at in range(0, size, EVERY):
            copy = memory_path / "rotten"
            shutil.copytree(data, copy)
            with (copy / path.relative_to(data)).open("r+b") as file:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << at % 8]))
            try:
                assert found(copy) == expected, f"byte {at} of {path.name}"
            except Damaged:
                told += 1
            shutil.rmtree(copy)
    assert told > 2


def test_after_a_repair_of_the_meta_topic_the_older_snapshot_is_taken(data: Path) -> None:
    expected = found(data)
    rot(max(segments(data, TOPICS.meta)))
    with pytest.raises(Damaged, match="wal_meta_7"):
        found(data)
    repaired(data, TOPICS.meta)
    assert found(data) == expected


@pytest.mark.parametrize("back", [90, 150])
def test_after_a_repair_of_the_data_topic_the_loss_is_told_and_accepted(data: Path, back: int) -> None:
    """Records from the midst of the log are gone: from its tail, or from what a snapshot knows."""
    expected = found(data)
    rot(segments(data, TOPICS.data)[-1], back)
    with pytest.raises(Damaged, match="wal_data_7"):
        found(data)
    repaired(data, TOPICS.data)
    with pytest.raises(Damaged, match=r"is missing|are lost"):
        found(data)
    rows = found(data, accept_loss=True)
    assert rows
    assert set(rows) < set(expected)
    assert found(data) == rows  # accepted once and for all


def test_a_repair_that_cuts_the_last_record_is_told_before_its_sequence_is_given_again(data: Path) -> None:
    expected = found(data)
    rot(segments(data, TOPICS.data)[-1])
    repaired(data, TOPICS.data)
    with pytest.raises(Damaged, match="offset 16 of wal_data_7 are lost"):
        found(data)
    with EmbeddedLog(data) as log, pytest.raises(Damaged, match="are lost"):
        verify(RegionView(log, TOPICS))
    assert found(data, accept_loss=True) == expected[:-1]
    assert found(data) == expected[:-1]  # accepted once and for all
    with EmbeddedLog(data) as log:
        assert verify(RegionView(log, TOPICS)).compared == "older snapshot"


@pytest.mark.parametrize("behind", [True, False])
def test_a_repair_that_cuts_a_mark_does_not_bring_payloads_back_without_a_word(memory_path: Path, behind: bool) -> None:
    """No sequence shows that a mark is missing, whether records lie behind it or not."""
    data = memory_path / "data"

    async def fill() -> None:
        with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
            create_region(log, TOPICS)
            region = await open_region(log, owners, TOPICS)
            await region.write(1, [b"flushed"])
            await region.mark_delete_up_to(1, 1)
            if behind:
                await region.write(1, [b"x" * 200])
            await region.close()

    asyncio.run(fill())
    rot(segments(data, TOPICS.data)[-1], 320 if behind else 10)
    repaired(data, TOPICS.data)
    with pytest.raises(Damaged, match="offset 1 of wal_data_7 are lost"):
        found(data)
    rows = found(data, accept_loss=True)
    assert found(data) == rows
    with EmbeddedLog(data) as log:  # the scan of the whole log cannot tell what was accepted
        assert verify(RegionView(log, TOPICS)).compared == "older snapshot"


@pytest.mark.parametrize("topic", [TOPICS.data, TOPICS.meta])
def test_a_lost_description_is_made_anew_when_the_region_is_created(data: Path, topic: str) -> None:
    expected, path = found(data), data / "log" / topic / "topic.json"
    path.write_bytes(b"rot")
    with EmbeddedLog(data) as log, pytest.raises(Damaged, match=r"cannot be read.*headwater wal create"):
        create_region(log, TOPICS)
    path.unlink()
    with pytest.raises(Damaged, match=r"headwater wal create NAMESPACE/ID"):
        found(data)
    with EmbeddedLog(data) as log:
        assert not create_region(log, TOPICS)
        assert log.topic(topic).settings.owner == "wal"
    assert found(data) == expected


def segments(data: Path, topic: str) -> list[Path]:
    return sorted(path for path in (data / "log" / topic / "0").glob("*.log") if path.read_bytes().rstrip(b"\0"))


def rot(path: Path, back: int = 20) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw.rstrip(b"\0")) - back] ^= 1
    path.write_bytes(raw)


def repaired(data: Path, topic: str) -> None:
    repair(data / "log" / topic / "0", name=topic, files=Files(), clock=SystemClock(), boot=boot_id())
