from __future__ import annotations

import asyncio

import google_crc32c
import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.core.errors import Damaged, MetaLost
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.wal.layout import MalformedRecord, RecordKind, encode_key, encode_meta_key, encode_payloads
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_outcomes import TableMark
from headwater.wal.region_topics import PART
from headwater.wal.snapshot import decode_chunk, encode_snapshot, joined
from headwater.wal.table_meta import TableMeta

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


async def test_a_region_of_the_wal_on_kafka_that_lacks_what_its_snapshot_knows_is_told(log: EmbeddedLog) -> None:
    """Table 0 with next 4 and marked 2, in a log that begins with 3."""
    writer = log.claim(TOPICS.data, 0, part=PART)
    writer.append([Record(encode_key(RecordKind.ENTRY, 7, 0, number), encode_payloads([b"%d" % number])) for number in (1, 3, 4)])
    store(log, bytes.fromhex("00 12 08 10 04 18 02 20 03 28 01"))
    with pytest.raises(Damaged, match="table 0 has lost 2 to 2"):
        recover(log, TOPICS)
    assert recover(log, TOPICS, accept_loss=True).meta.tables[0].marked == 3


@pytest.mark.parametrize("whose", ["ours", "of the WAL on Kafka"])
async def test_a_snapshot_with_a_table_twice_is_named_with_its_topic_and_offset(log: EmbeddedLog, whose: str) -> None:
    writer = log.claim(TOPICS.data, 0, part=PART)
    writer.append([Record(encode_key(RecordKind.ENTRY, 7, 5, number), encode_payloads([b"x"])) for number in range(1, 4)])
    if whose == "ours":
        [chunk] = encode_snapshot(RegionMeta(watermark=3, tables={5: TableMeta(next=4, marked=4, watermark=3, offsets=[])}), 1000)
        body = chunk[:-4]
        doubled = body[:1] + body[1 : 3 + body[2]] + body[1:]  # the version, the table, and everything
        store(log, doubled + google_crc32c.value(doubled[:-1]).to_bytes(4, "little"))
    else:
        store(log, bytes.fromhex("00" + 2 * "12 08 08 05 10 04 18 04 20 03"))
    told = f"the one at 0 of {TOPICS.meta} is damaged: it has table 5 twice"
    assert recover(log, TOPICS).problems == [told]  # the log itself is whole
    writer.delete_before(2)
    with pytest.raises(MetaLost, match=told):
        recover(log, TOPICS)


async def test_all_flushed_numbers_of_the_wal_on_kafka_go_on(log: EmbeddedLog) -> None:
    """Example B of its description: next 5, marked 5, and a log of which nothing is left."""
    writer = log.claim(TOPICS.data, 0, part=PART)
    writer.append([Record(encode_key(RecordKind.ENTRY, 7, 0, number), encode_payloads([b"x"])) for number in range(1, 7)])
    writer.delete_before(6)
    store(log, bytes.fromhex("00 12 08 08 01 10 05 18 05 20 06"))
    assert recover(log, TOPICS).meta.tables[1].next == 5


async def test_a_record_that_no_region_writes_is_named(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"x"])
    await region.close()
    log.claim(TOPICS.data, 0, part=PART).append([Record(b"key", b"value")])
    with pytest.raises(Damaged, match="Record 1 of wal_data_7 does not fit into region 7: its key has 3 bytes"):
        recover(log, TOPICS)


# -- snapshots that are not whole ---------------------------------------------------------------------------------


async def cleaned(opened: OpenRegion) -> None:
    """A region whose log no longer begins at 0, with two snapshots: without one of them it cannot be recovered."""
    region = await opened()
    for _ in range(6):
        await region.write(1, [b"x"])
        await region.write(2, [b"y"])
    await region.mark_delete_up_to(1, 5)
    await region.mark_delete_up_to(2, 4)
    assert (await region.clean()).start > 0
    await region.write(2, [b"z"])
    await region.snapshot()
    await region.close()


def rewritten(log: EmbeddedLog, *values: bytes) -> None:
    """The meta topic with these values alone."""
    writer = log.claim(TOPICS.meta, 0, part=PART)
    writer.delete_before(log.bounds(TOPICS.meta, 0).end)
    writer.append([Record(encode_meta_key(7), value) for value in values])


def stored(log: EmbeddedLog) -> list[bytes]:
    return [record.value or b"" for record in log.read(TOPICS.meta, 0, log.bounds(TOPICS.meta, 0).start)]


async def test_whichever_of_the_two_snapshots_is_damaged_the_other_one_is_taken(opened: OpenRegion, log: EmbeddedLog) -> None:
    await cleaned(opened)
    expected, values = recover(log, TOPICS).meta, stored(log)
    assert len(values) == 2
    for place in (0, 1):
        for at in range(0, len(values[place]), 3):
            rotten = [bytearray(value) for value in values]
            rotten[place][at] ^= 1 << at % 8
            rewritten(log, *map(bytes, rotten))
            found = recover(log, TOPICS)
            assert (found.meta, len(found.snapshots), len(found.problems)) == (expected, 1, 1)
    rewritten(log, values[0][:5], values[1][:-3])
    with pytest.raises(MetaLost, match="no chunk"):
        recover(log, TOPICS)


@pytest.mark.parametrize("how", ["missing", "doubled", "swapped", "of another", "last", "first", "behind"])
async def test_chunks_that_are_no_snapshot_hide_no_whole_one(opened: OpenRegion, log: EmbeddedLog, how: str) -> None:
    region = await opened()
    for table in range(60):
        await region.write(table, [b"x"])
    await region.mark_delete_up_to(0, 1)
    await region.close()
    meta = recover(log, TOPICS).meta
    whole, other = encode_snapshot(meta, 200), encode_snapshot(RegionMeta(watermark=3, tables=meta.tables), 200)
    log.claim(TOPICS.data, 0, part=PART).delete_before(1)
    assert len(whole) > 3
    bad = {
        "missing": whole[:1] + whole[2:],
        "doubled": [whole[0], whole[1], whole[1], *whole[2:]],
        "swapped": [whole[0], whole[2], whole[1], *whole[3:]],
        "of another": [whole[0], other[1], *whole[2:]],
        "last": whole[-1:],
        "first": whole[:1],
        "behind": [whole[2], whole[1]],
    }[how]
    for values in ([*whole, *bad], [*bad, *whole], [*bad, *whole, *bad]):
        rewritten(log, *values)
        found = recover(log, TOPICS)
        assert (found.meta, len(found.snapshots), found.records) == (meta, 1, 0)
        assert found.problems
    rewritten(log, *bad)
    with pytest.raises(MetaLost):
        recover(log, TOPICS)


async def test_a_damaged_snapshot_is_never_taken_for_one_of_the_wal_on_kafka(opened: OpenRegion, log: EmbeddedLog) -> None:
    """A flipped length can make a table's message reach to the end: what is left looks like a snapshot without a map."""
    region = await opened()
    await region.write(1, [b"x"])
    await region.close()
    [value] = encode_snapshot(recover(log, TOPICS).meta, 1000)
    swallowed = bytearray(value)
    swallowed[2] = len(value) - 3
    rewritten(log, bytes(swallowed))
    found = recover(log, TOPICS)
    assert found.meta == full_scan(log, TOPICS).meta
    assert found.problems
    with pytest.raises(MalformedRecord):
        decode_chunk(bytes(swallowed))


async def test_a_snapshot_that_places_payloads_behind_itself_is_damaged() -> None:
    meta = RegionMeta(watermark=7, tables={1: TableMeta(next=2, watermark=7, offsets=[7])})
    with pytest.raises(MalformedRecord, match="behind its watermark 7"):
        joined([decode_chunk(value) for value in encode_snapshot(meta, 1000)])


# -- what is left of a region that has lost its beginning, or its meta topic --------------------------------------------


async def test_without_its_meta_topic_a_whole_log_is_enough(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"a", b"b"])
    await region.mark_delete_up_to(1, 1)
    await region.write(2, [b"c"])
    await region.close_gracefully()
    expected = recover(log, TOPICS).meta
    log.delete_topic(TOPICS.meta, part=PART)
    found = recover(log, TOPICS)
    assert (found.meta, found.snapshots) == (expected, [])
    assert "wal_meta_7" in found.problems[0]
    region = await opened()
    assert await region.write(1, [b"d"]) == 3
    await region.snapshot()
    await region.close()
    assert len(recover(log, TOPICS).snapshots) == 1


async def test_a_lost_meta_topic_is_told_with_what_is_left_and_is_accepted_once(opened: OpenRegion, log: EmbeddedLog) -> None:
    await cleaned(opened)
    expected = recover(log, TOPICS).meta
    log.delete_topic(TOPICS.meta, part=PART)
    with pytest.raises(MetaLost, match=r"table 2 from 5 on, at 9; table 1 from 6 on, at 10") as lost:
        await opened()
    assert "--accept-loss" in lost.value.hint
    left = recover(log, TOPICS, accept_loss=True).meta
    assert {number: (table.next, table.marked) for number, table in left.tables.items()} == {1: (7, 6), 2: (8, 5)}
    assert left == expected
    with pytest.raises(MetaLost):  # looking has not changed anything
        await opened()
    region = await opened(accept_loss=True)
    assert await region.write(1, [b"next"]) == 7
    await region.close()
    region = await opened()
    assert await region.write(1, [b"next"]) == 8
    assert await region.mark_delete_up_to(2, 99) == TableMark(7, clamped=True)
    await region.clean()
    assert [entry.sequence async for entry in region.scan()] == [6, 7, 8]


async def test_what_was_moved_is_left_when_its_first_place_is_gone(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    for number in range(1, 4):
        await region.write(9, [b"%d" % number])
        await region.write(1, [b"x"])
    await region.write(9, [b"many"] * 700)  # more than a move copies at once
    moving = asyncio.create_task(region.move(9))
    while not moving.done():
        await region.write(9, [b"beside"])
    assert await moving >= 703
    await region.mark_delete_up_to(1, 3)
    expected = [(entry.sequence, entry.payload) async for entry in region.read(9)]
    assert (await region.clean()).start > 6
    await region.close()
    log.delete_topic(TOPICS.meta, part=PART)
    region = await opened(accept_loss=True)
    assert [(entry.sequence, entry.payload) async for entry in region.read(9)] == expected
    assert region.sequence_num(1) == 3  # known by its mark: its numbers do not begin anew


async def test_a_log_that_has_lost_what_a_table_needs_is_told(opened: OpenRegion, log: EmbeddedLog) -> None:
    """As by retention, or by somebody who truncates the topic by hand."""
    region = await opened()
    for number in range(1, 9):
        await region.write(number % 2, [b"%d" % number])
    await region.close_gracefully()
    log.claim(TOPICS.data, 0, part=PART).delete_before(5)
    with pytest.raises(Damaged, match=r"begins at 5.*table 1 has lost 1 to 3; table 0 has lost 1 to 2") as lost:
        await opened()
    assert "--accept-loss" in lost.value.hint
    region = await opened(accept_loss=True)
    assert [(entry.table, entry.sequence) async for entry in region.scan()] == [(0, 3), (1, 4), (0, 4)]
    await region.close()
    assert (await opened()).sequence_num(1) == 4


async def test_a_log_that_is_older_than_its_snapshot_can_be_gone_on_with(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"x"])
    await region.close()
    store(log, *encode_snapshot(RegionMeta(watermark=50), 1000))
    with pytest.raises(Damaged):
        await opened()
    region = await opened(accept_loss=True)
    assert await region.write(1, [b"y"]) == 2
    await region.close()
    assert (await opened()).sequence_num(1) == 2


async def test_a_snapshot_ahead_of_the_log_is_never_believed_later(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    for _ in range(10):
        await region.write(1, [b"kept"])
    await region.snapshot()
    await region.close()
    ahead = RegionMeta(watermark=20, tables={1: TableMeta(next=21, offsets=range(20), watermark=20)})
    store(log, *encode_snapshot(ahead, 1000))  # of a log that was since restored from a backup
    assert recover(log, TOPICS, accept_loss=True).accepted
    region = await opened(accept_loss=True)
    assert [one.watermark for one in region.snapshots] == [10, 10]
    assert log.bounds(TOPICS.meta, 0).start == region.snapshots[0].first
    for _ in range(10):
        await region.write(2, [b"new"])
    await region.close()
    found = recover(log, TOPICS)
    assert (found.meta, found.accepted) == (full_scan(log, TOPICS).meta, False)


async def test_a_snapshot_ahead_of_the_log_is_none_of_the_two_that_a_clean_needs(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"x"])
    await region.close()
    store(log, *encode_snapshot(RegionMeta(watermark=50), 1000))
    store(log, *encode_snapshot(recover(log, TOPICS, accept_loss=True).meta, 1000))
    assert [one.watermark for one in recover(log, TOPICS).snapshots] == [1]


async def test_who_looks_while_the_owner_writes_and_cleans_sees_a_state_that_was_there(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    stop = asyncio.Event()
    seen = 0

    async def look() -> None:
        nonlocal seen
        while not stop.is_set():
            found = (await asyncio.to_thread(recover, log, TOPICS)).meta
            if 1 in found.tables:
                seen = max(seen, found.tables[1].next)

    looking = asyncio.create_task(look())
    for number in range(1, 60):
        await region.write(1, [b"%d" % number])
        await region.mark_delete_up_to(1, number - 1)
        await region.clean()
    stop.set()
    await looking
    assert seen > 1


async def test_the_older_snapshot_gives_the_same_state_up_to_any_offset(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    for _ in range(3):
        await region.write(1, [b"x"])
        await region.snapshot()
    await region.write(1, [b"y"])
    await region.close()
    assert recover(log, TOPICS, skip=1).meta == recover(log, TOPICS).meta == full_scan(log, TOPICS).meta
    assert recover(log, TOPICS, skip=2).records == 4
    assert recover(log, TOPICS, end=3).meta == full_scan(log, TOPICS, 3).meta
    assert full_scan(log, TOPICS, 2).meta.tables[1].next == 3
