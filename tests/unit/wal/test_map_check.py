from __future__ import annotations

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.map_check import misplaced
from headwater.wal.recovery import recover
from headwater.wal.region_meta import RegionMeta
from headwater.wal.table_meta import TableMeta

pytestmark = pytest.mark.anyio
LAST = 2**64 - 1


@pytest.fixture
async def meta(log: EmbeddedLog, opened: OpenRegion) -> RegionMeta:
    """Table 1 has 1 to 3 at 0, 4 at 2 and 5 at 5; table 2^64-1 has 1 and 2 at 6, moved from 1. Offset 4 is a mark of table 5."""
    region = await opened()
    await region.write(1, [b"a", b"b", b"c"])
    await region.write(LAST, [b"x", b"y"])
    await region.write(1, [b"d"])
    await region.write(5, [b"flushed"])
    await region.mark_delete_up_to(5, 1)
    await region.write(1, [b"e"])
    await region.move(LAST)
    return recover(log, TOPICS).meta


async def test_a_state_fits_its_log(log: EmbeddedLog, meta: RegionMeta) -> None:
    assert misplaced(log, TOPICS, meta) == ""
    assert misplaced(log, TOPICS, RegionMeta()) == ""


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([0, 0, 2, 2, 5], "table 1 has its payload 3 at offset 2 as stored, which holds 4 to 4 of table 1"),
        ([0, 0, 0, 1, 5], f"table 1 has its payload 4 at offset 1 as stored, which holds 1 to 2 of table {LAST}"),
        ([0, 0, 0, 2, 4], "table 1 has its payload 5 at offset 4 as stored, which holds"),
        ([0, 0, 0, 2, 99], "table 1 has its payload 5 at offset 99 as stored, where there is no record"),
    ],
)
async def test_the_first_wrong_place_is_named(log: EmbeddedLog, meta: RegionMeta, offsets: list[int], said: str) -> None:
    meta.tables[1] = TableMeta(next=6, offsets=offsets, watermark=6)
    assert said in misplaced(log, TOPICS, meta)
