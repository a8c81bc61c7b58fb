from __future__ import annotations

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.core.errors import Cancelled, Differs
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.region_meta import RegionMeta
from headwater.wal.table_meta import TableMeta
from headwater.wal.verification import difference, verify
from headwater.wal.view import RegionView

pytestmark = pytest.mark.anyio


async def test_what_is_stored_is_what_the_log_tells_from_0_and_from_the_older_snapshot(log: EmbeddedLog, opened: OpenRegion) -> None:
    region, view = await opened(), RegionView(log, TOPICS)
    for table in (1, 2, 1):
        await region.write(table, [b"x", b"y"])
    await region.snapshot()
    await region.write(3, [b"z"])
    found = verify(view)
    assert (found.tables, found.live, found.watermark, found.compared, found.records) == (3, 7, 4, "full scan", 4)
    await region.mark_delete_up_to(1, 4)
    await region.mark_delete_up_to(2, 2)
    await region.clean()
    await region.write(3, [b"z"])
    assert (verify(view).compared, verify(view).live) == ("older snapshot", 2)


async def test_the_first_difference_is_shown(log: EmbeddedLog, opened: OpenRegion) -> None:
    region = await opened()
    await region.write(1, [b"x", b"y"])
    with region._writer.locked:  # a state that the log does not tell, as a defect would store it
        region._writer.meta.tables[1].mark(2)
    await region.snapshot()
    with pytest.raises(Differs, match="table 1 has marked 2 as stored, and 1 by the log"):
        verify(RegionView(log, TOPICS))


@pytest.mark.parametrize(
    ("stored", "told", "said"),
    [
        (RegionMeta(), RegionMeta(), ""),
        (RegionMeta(tables={5: TableMeta()}), RegionMeta(), "only the stored state has table 5"),
        (RegionMeta(), RegionMeta(tables={5: TableMeta()}), "only the log has table 5"),
        (RegionMeta(watermark=3), RegionMeta(watermark=4), "its watermark is 3 as stored, and 4 by the log"),
        (RegionMeta(epoch=3), RegionMeta(epoch=4), "its epoch is 3 as stored, and 4 by the log"),
        (
            RegionMeta(tables={1: TableMeta(next=4, marked=2, offsets=[7, 8])}),
            RegionMeta(tables={1: TableMeta(next=4, marked=2, offsets=[7, 9])}),
            "table 1 has its payload 3 at offset 8 as stored, and at 9 by the log",
        ),
    ],
)
def test_every_difference_has_its_words(stored: RegionMeta, told: RegionMeta, said: str) -> None:
    assert difference(stored, told) == said


async def test_it_ends_between_two_batches_where_that_is_wished(log: EmbeddedLog, opened: OpenRegion) -> None:
    region = await opened()
    await region.write(1, [b"x"])
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 2:  # of the stored state, and of the scan
            raise Cancelled("Enough.", hint="")

    with pytest.raises(Cancelled):
        verify(RegionView(log, TOPICS), beat)


async def test_a_wrong_place_that_both_snapshots_have_is_told_by_the_log(log: EmbeddedLog, opened: OpenRegion) -> None:
    region = await opened()
    for number in range(20):
        await region.write(1, [b"%d" % number])
    await region.mark_delete_up_to(1, 10)
    await region.clean()
    verify(RegionView(log, TOPICS))
    with region._writer.locked:
        meta = region._writer.meta
        column = meta.tables[1].column().tolist()
        column[2], column[3] = column[3], column[2]
        meta.tables[1] = TableMeta(next=21, marked=11, offsets=column, watermark=meta.tables[1].watermark)
    await region.clean()
    await region.clean()
    with pytest.raises(Differs, match="table 1 has its payload 14 at offset 12 as stored, which holds 13 to 13 of table 1"):
        verify(RegionView(log, TOPICS))
