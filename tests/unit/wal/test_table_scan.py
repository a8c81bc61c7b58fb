from __future__ import annotations

import pytest
from tests.unit.wal.conftest import OpenRegion

from headwater.core.errors import Closed
from headwater.wal.region import Region

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
