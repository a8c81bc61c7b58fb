from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.wal.conftest import TOPICS, FailingOnce, OpenRegion
from tests.until import until

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Closed, DiskFull, Fenced, OutcomeUnknown, TooLarge, Unavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.wal.layout import EMPTY, RecordKind
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import PART
from headwater.wal.region_writer import RegionWriter

pytestmark = pytest.mark.anyio
ENTRY = RecordKind.ENTRY


@pytest.mark.parametrize("arrives", [True, False])
async def test_after_an_unknown_outcome_what_arrived_is_adopted(opened: OpenRegion, arrives: bool) -> None:
    region = await opened()
    await region.write(1, [b"a"])
    owned = region._owned
    owned.writer = FailingOnce(owned.writer, OutcomeUnknown("The broker went away."), arrives=arrives)  # type: ignore[assignment]
    with pytest.raises(OutcomeUnknown):
        await region.write(1, [b"b"])
    assert await region.write(1, [b"c"]) == (3 if arrives else 2)
    assert [entry.payload async for entry in region.read(1)] == [b"a", *([b"b"] if arrives else []), b"c"]
    assert [entry.sequence async for entry in region.read(1)] == list(range(1, 3 + arrives))


async def test_a_failed_append_fails_what_was_numbered_behind_it(opened: OpenRegion) -> None:
    region = await opened()
    await region.write(1, [b"a"])
    owned = region._owned
    owned.writer = FailingOnce(owned.writer, DiskFull("The disk is full."), arrives=False)  # type: ignore[assignment]
    calls = [region.write(1, [b"b"]), region.write(2, [b"c"]), region.mark_delete_up_to(1, 1), region.write(1, [b"d"])]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, DiskFull | Unavailable) for one in outcomes), outcomes
    assert await asyncio.gather(region.write(1, [b"e"]), region.write(2, [b"f"])) == [2, 1]
    assert [(entry.table, entry.payload) async for entry in region.scan()] == [(1, b"a"), (1, b"e"), (2, b"f")]


class Watched:
    """A lock that tells how many have asked for it."""

    def __init__(self, lock: Any) -> None:
        self._lock, self.asked = lock, 0

    def __enter__(self) -> None:
        self.asked += 1
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class SlowDeletion:
    """A Writer whose deletion waits until `go`."""

    def __init__(self, writer: Any, go: threading.Event) -> None:
        self._writer, self._go = writer, go

    def delete_before(self, offset: int) -> Any:
        assert self._go.wait(60)
        return self._writer.delete_before(offset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


async def test_a_clean_is_not_fenced_by_its_own_regions_next_claim(opened: OpenRegion, log: EmbeddedLog) -> None:
    region, go = await opened(), threading.Event()
    for _ in range(3):
        await region.write(1, [b"a"])
    await region.mark_delete_up_to(1, 2)
    owned, claiming = region._owned, Watched(region._writer._claiming)
    region._writer._claiming = claiming  # type: ignore[assignment]
    epoch = log.epoch(TOPICS.data, 0)
    owned.writer = SlowDeletion(owned.writer, go)  # type: ignore[assignment]
    cleaning = asyncio.create_task(region.clean())
    await until(lambda: claiming.asked == 1)
    owned.writer = FailingOnce(owned.writer, OutcomeUnknown("?"), arrives=False)  # type: ignore[assignment]
    with pytest.raises(OutcomeUnknown):
        await region.write(1, [b"b"])
    writing = asyncio.create_task(region.write(1, [b"c"]))
    await until(lambda: claiming.asked == 2)
    assert log.epoch(TOPICS.data, 0) == epoch
    go.set()
    assert (await cleaning).start == 2
    assert await writing == 4
    assert log.epoch(TOPICS.data, 0) == epoch + 1


async def test_a_region_that_another_has_taken_stays_lost(opened: OpenRegion, log: EmbeddedLog, tmp_path: Path) -> None:
    region = await opened()
    await region.write(1, [b"a"])
    with LocalOwnership(log, tmp_path / "owners") as other:
        other.own(TOPICS.data, 0, take_over=True, part=PART)
        for _ in range(3):
            with pytest.raises(Fenced):
                await region.write(1, [b"b"])
    assert [entry.payload async for entry in region.read(1)] == [b"a"]


async def test_a_claim_by_others_during_an_unknown_outcome_is_respected(opened: OpenRegion, log: EmbeddedLog, tmp_path: Path) -> None:
    region = await opened()
    await region.write(1, [b"a"])
    owned = region._owned
    owned.writer = FailingOnce(owned.writer, OutcomeUnknown("?"), arrives=True)  # type: ignore[assignment]
    with pytest.raises(OutcomeUnknown):
        await region.write(1, [b"b"])
    with LocalOwnership(log, tmp_path / "owners") as other:
        taken = other.own(TOPICS.data, 0, take_over=True, part=PART)
        with pytest.raises(Fenced):
            await region.write(1, [b"c"])
        taken.writer.append([Record(b"k", b"v")])


async def test_what_is_too_large_or_comes_too_late_is_not_queued(log: EmbeddedLog, tmp_path: Path) -> None:
    with LocalOwnership(log, tmp_path / "owners") as owners:
        writer = RegionWriter(log, owners.own(TOPICS.data, 0, part=PART), RegionMeta(), 7)
        with pytest.raises(TooLarge, match="max_record"):
            writer.add(ENTRY, 1, 1, bytes(16 << 20))
        await writer.add(ENTRY, 1, 1, EMPTY)
        assert writer.meta.tables[1].next == 2
        await writer.aclose()
        with pytest.raises(Closed):
            await writer.ready()
