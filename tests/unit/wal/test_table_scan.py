from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.wal.conftest import OpenRegion

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Closed, OffsetGone
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal import table_scan
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

pytestmark = pytest.mark.anyio


def found(region: Region, table: int) -> list[tuple[int, bytes]]:
    return [(sequence, payload) for first, part in region.payloads(table) for sequence, payload in enumerate(part, first)]


async def read(region: Region, table: int) -> list[tuple[int, bytes]]:
    return [(entry.sequence, entry.payload) async for entry in region.read(table)]


async def test_payloads_are_those_that_a_reader_finds(opened: OpenRegion) -> None:
    region = await opened()
    for number in range(300):
        await region.write(1, [b"%d" % number])
        if number % 3 == 0:
            await region.write(2, [b"other"])
    await region.mark_delete_up_to(1, 100)
    assert found(region, 1) == await read(region, 1) == [(number + 1, b"%d" % number) for number in range(100, 300)]
    assert found(region, 7) == []


async def test_records_of_several_payloads_moved_ones_and_few_among_many_are_found(opened: OpenRegion) -> None:
    region = await opened()
    await region.write(1, [b"a", b"b"])
    await region.write(1, [b"c"])
    assert found(region, 1) == [(1, b"a"), (2, b"b"), (3, b"c")]
    await region.write(3, [b"first"])
    await region.write(2, [b""])
    for _ in range(50):
        await region.write(2, [b""])
    await region.write(3, [b"last"])
    assert found(region, 3) == await read(region, 3) == [(1, b"first"), (2, b"last")]
    await region.move(1)
    assert found(region, 1) == [(1, b"a"), (2, b"b"), (3, b"c")]
    await region.close()
    with pytest.raises(Closed):
        region.payloads(1)


async def test_large_payloads_come_in_small_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_scan, "_PART_BYTES", 100_000)
    topics, written = RegionTopics("wal", 1), [b"%d" % number * (5000 if 200 <= number < 300 else 1) for number in range(1000)]
    with EmbeddedLog(tmp_path) as log, LocalOwnership(log, tmp_path / "owners") as owners:
        create_region(log, topics)
        region = await open_region(log, owners, topics)
        await asyncio.gather(*(region.write(1, [payload]) for payload in written))
        assert found(region, 1) == list(enumerate(written, 1))
        sizes = [sum(map(len, part)) for _, part in region.payloads(1)]
        assert sorted(sizes)[-2] < 400_000 < sum(sizes)  # the first of the large ones come as a surprise
        assert len(sizes) < 60
        await region.close()


async def test_payloads_are_looked_up_by_their_sequences(opened: OpenRegion) -> None:
    region = await opened()
    await region.write(2, [b"other"])
    for number in range(20):
        await region.write(1, [b"%d" % number, b"%d" % number * 2])
    await region.mark_delete_up_to(1, 4)
    await region.move(1)
    assert list(region.payloads_at(1, [5, 6, 39])) == [(5, b"2"), (6, b"22"), (39, b"19")]
    assert list(region.payloads_at(1, [])) == []
    for table, sequence in [(1, 4), (1, 41), (9, 1)]:
        with pytest.raises(OffsetGone, match=f"Payload {sequence} of table {table}"):
            region.payloads_at(table, [sequence])
    await region.close()
    with pytest.raises(Closed):
        region.payloads_at(1, [5])
