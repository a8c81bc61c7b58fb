from __future__ import annotations

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.core.errors import Damaged, MetaLost
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.wal.layout import RecordKind, encode_key, encode_meta_key, encode_payloads
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import PART
from headwater.wal.snapshot import encode_snapshot

pytestmark = pytest.mark.anyio


def store(log: EmbeddedLog, *values: bytes, region: int = 7) -> None:
    """Append to the meta topic as its owner, without a check."""
    log.claim(TOPICS.meta, 0, part=PART).append([Record(encode_meta_key(region), value) for value in values])


async def test_an_empty_region_has_nothing(log: EmbeddedLog) -> None:
    found = recover(log, TOPICS)
    assert (found.meta, found.records, found.snapshots, found.problems) == (RegionMeta(), 0, [], [])


async def test_of_a_damaged_snapshot_the_older_one_is_taken_and_that_is_told(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    for _ in range(3):
        await region.write(1, [b"x"])
        await region.snapshot()
    await region.close()
    state = recover(log, TOPICS)
    newest = encode_snapshot(state.meta, 1000)[0]
    store(log, newest[:-1] + bytes([newest[-1] ^ 1]))
    found = recover(log, TOPICS)
    assert found.meta == state.meta
    assert "record 3 of wal_meta_7 is no chunk of a snapshot: its checksum" in found.problems[0]


async def test_a_snapshot_without_its_last_chunk_does_not_count(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    for table in range(40):
        await region.write(table, [b"x"])
    await region.close()
    whole = recover(log, TOPICS)
    store(log, *encode_snapshot(whole.meta, 200)[:-1])
    found = recover(log, TOPICS)
    assert (found.meta, found.snapshots) == (whole.meta, [])
    assert "missing" in found.problems[0]
    store(log, *encode_snapshot(whole.meta, 200))
    found = recover(log, TOPICS)
    assert (found.meta, found.records, len(found.snapshots)) == (whole.meta, 0, 1)


async def test_without_a_snapshot_a_log_that_begins_later_is_lost_unless_that_is_accepted(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    for number in range(1, 6):
        await region.write(1, [b"%d" % number])
        await region.write(2, [b"%d" % number])
    await region.mark_delete_up_to(1, 4)
    await region.close()
    log.claim(TOPICS.data, 0, part=PART).delete_before(4)
    with pytest.raises(MetaLost, match=r"begins at 4, and no snapshot is whole \(there is none\)") as lost:
        recover(log, TOPICS)
    assert "headwater wal recover wal/7 --accept-loss" in lost.value.hint
    left = recover(log, TOPICS, accept_loss=True).meta
    assert (left.tables[1].next, left.tables[1].marked, left.tables[2].next, left.tables[2].marked) == (6, 5, 6, 3)
    with pytest.raises(MetaLost):
        full_scan(log, TOPICS)


async def test_a_log_that_is_older_than_its_snapshot_is_told(log: EmbeddedLog) -> None:
    store(log, *encode_snapshot(RegionMeta(watermark=50), 1000))
    with pytest.raises(Damaged, match="ends at 0, and its snapshot knows those before 50"):
        recover(log, TOPICS)


async def test_a_snapshot_below_the_logs_beginning_is_of_no_use(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    for _ in range(6):
        await region.write(1, [b"x"])
    await region.close()
    store(log, *encode_snapshot(RegionMeta(watermark=2), 1000))
    log.claim(TOPICS.data, 0, part=PART).delete_before(4)
    with pytest.raises(MetaLost, match="needs the log from 2 on, which begins at 4"):
        recover(log, TOPICS)


async def test_a_snapshot_of_another_region_is_passed_over(log: EmbeddedLog) -> None:
    store(log, *encode_snapshot(RegionMeta(), 1000), region=8)
    found = recover(log, TOPICS)
    assert (found.meta, found.snapshots) == (RegionMeta(), [])
    assert "it is of region 8" in found.problems[0]


async def test_a_region_of_the_wal_on_kafka_is_read(log: EmbeddedLog) -> None:
    """Its snapshot has no map: table 0 with next 4, marked 2, watermark 3 and safe offset 1."""
    writer = log.claim(TOPICS.data, 0, part=PART)
    writer.append([Record(encode_key(RecordKind.ENTRY, 7, 0, number), encode_payloads([b"%d" % number])) for number in range(1, 6)])
    store(log, bytes.fromhex("00 12 08 10 04 18 02 20 03 28 01"))
    table = recover(log, TOPICS).meta.tables[0]
    assert (table.next, table.marked, table.offsets(0, 9)) == (6, 2, [1, 2, 3, 4])


async def test_a_record_that_no_region_writes_is_named(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"x"])
    await region.close()
    log.claim(TOPICS.data, 0, part=PART).append([Record(b"key", b"value")])
    with pytest.raises(Damaged, match="Record 1 of wal_data_7 does not fit into region 7: its key has 3 bytes"):
        recover(log, TOPICS)
