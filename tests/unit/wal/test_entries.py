from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.core.errors import BadInput, Damaged, OffsetGone, RegionNotFound
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.wal.bounds import SequenceRange
from headwater.wal.entries import EntryPlaces, EntryReader, LatePlaces, late_region_places, late_table_places, region_places, table_places
from headwater.wal.layout import RecordKind, encode_key, encode_payloads
from headwater.wal.region_creation import create_region
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import PART
from headwater.wal.table_meta import TableMeta

pytestmark = pytest.mark.anyio


def order(meta: RegionMeta) -> list[tuple[int, int]]:
    places = region_places(meta)
    return list(zip(places.tables.tolist(), places.sequences.tolist(), strict=True))


async def test_tables_are_given_in_the_order_of_the_log() -> None:
    meta = RegionMeta(tables={1: TableMeta(next=4, offsets=[0, 5, 9]), 2: TableMeta(next=3, marked=2, offsets=[7])})
    assert order(meta) == [(1, 1), (1, 2), (2, 2), (1, 3)]
    assert order(RegionMeta()) == []


async def test_the_sequences_of_a_table_ascend_also_where_some_were_moved_behind_others() -> None:
    moved = TableMeta(next=5, offsets=[90, 90, 20, 30])
    meta = RegionMeta(tables={1: moved, 2: TableMeta(next=3, offsets=[10, 25])})
    assert order(meta) == [(2, 1), (1, 1), (1, 2), (1, 3), (2, 2), (1, 4)]


async def test_a_range_is_cut_to_what_is_live() -> None:
    meta = RegionMeta(tables={1: TableMeta(next=6, marked=3, offsets=[7, 8, 9])})
    places = table_places(meta, 1, SequenceRange(0, 4))
    assert (places.sequences.tolist(), places.offsets.tolist()) == ([3, 4], [7, 8])
    assert table_places(meta, 2, SequenceRange(0, 4)).offsets.tolist() == []


@pytest.mark.parametrize("batch", [0, -1, "5", True, 1.5])
async def test_a_batch_of_nothing_is_refused(log: EmbeddedLog, batch: Any) -> None:
    with pytest.raises(BadInput):
        EntryReader(log, TOPICS, table_places(RegionMeta(), 1, SequenceRange(0, 9)), batch=batch)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (encode_key(RecordKind.ENTRY, 7, 2, 1), encode_payloads([b"x"])),  # another table
        (encode_key(RecordKind.ENTRY, 7, 1, 5), encode_payloads([b"x"])),  # other sequences
        (encode_key(RecordKind.ENTRY, 7, 1, 1), b"\x09x"),
        (b"key", b"\0x"),
    ],
)
async def test_a_record_that_holds_something_else_is_told_each_time(log: EmbeddedLog, key: bytes, value: bytes) -> None:
    log.claim(TOPICS.data, 0, part=PART).append([Record(key, value)])
    reader = EntryReader(log, TOPICS, table_places(RegionMeta(tables={1: TableMeta(next=2, offsets=[0])}), 1, SequenceRange(0, 9)))
    for _ in range(2):
        with pytest.raises(Damaged, match="Record 0 of wal_data_7"):
            await reader.next_batch()


class Counting:
    """A log that tells how many bytes each scattered read gave."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log, self.read = log, list[int]()

    def read_at(self, topic: str, partition: int, offsets: list[int]) -> list[Record | None]:
        found = self._log.read_at(topic, partition, offsets)
        self.read.append(sum(len(record.value or b"") for record in found if record is not None))
        return found


async def test_large_payloads_come_in_smaller_batches_and_all_of_them_come(log: EmbeddedLog) -> None:
    writer = log.claim(TOPICS.data, 0, part=PART)
    size = 100_000
    for number in range(1, 61):
        writer.append([Record(encode_key(RecordKind.ENTRY, 7, 1, number), encode_payloads([bytes(size)]))])
    meta, counting = RegionMeta(tables={1: TableMeta(next=61, offsets=range(60))}), Counting(log)
    reader = EntryReader(counting, TOPICS, table_places(meta, 1, SequenceRange(0, 99)), most=5 * size)  # type: ignore[arg-type]
    batches = []
    while entries := await reader.next_batch():
        batches.append([entry.sequence for entry in entries])
    assert [sequence for batch in batches for sequence in batch] == list(range(1, 61))
    assert len(batches) == 10  # the first before the size is known
    assert max(counting.read[2:]) <= 5 * size + 5


@pytest.mark.parametrize(("size", "reads"), [(5, 2), (3 << 20, 5)])
async def test_a_record_of_many_payloads_is_read_once_unless_it_is_large(log: EmbeddedLog, size: int, reads: int) -> None:
    payloads = [b"%d" % number for number in range(199)] + [bytes(size)]
    log.claim(TOPICS.data, 0, part=PART).append(
        [
            Record(encode_key(RecordKind.ENTRY, 7, 1, 1), encode_payloads(payloads)),
            Record(encode_key(RecordKind.ENTRY, 7, 1, 201), encode_payloads(payloads[:50])),
        ]
    )
    meta, counting = RegionMeta(tables={1: TableMeta(next=251, offsets=[0] * 200 + [1] * 50)}), Counting(log)
    reader = EntryReader(counting, TOPICS, table_places(meta, 1, SequenceRange(0, 999)), batch=45)  # type: ignore[arg-type]
    assert [entry.payload async for entry in reader] == [*payloads, *payloads[:50]]
    assert len(counting.read) == reads


async def test_a_record_of_many_payloads_is_read_once_however_many_batches_it_gives(log: EmbeddedLog) -> None:
    payloads = [b"%d" % number for number in range(1000)]
    log.claim(TOPICS.data, 0, part=PART).append([Record(encode_key(RecordKind.ENTRY, 7, 1, 1), encode_payloads(payloads))])
    meta, counting = RegionMeta(tables={1: TableMeta(next=1001, offsets=[0] * 1000)}), Counting(log)
    reader = EntryReader(counting, TOPICS, table_places(meta, 1, SequenceRange(0, 2000)), batch=7)  # type: ignore[arg-type]
    assert [entry.payload async for entry in reader] == payloads
    assert len(counting.read) == 1


async def test_what_is_not_wanted_is_not_read(log: EmbeddedLog) -> None:
    """Entries are refused by their table, before they are read and decoded."""
    log.claim(TOPICS.data, 0, part=PART).append(
        [Record(b"nonsense", b"nonsense"), Record(encode_key(RecordKind.ENTRY, 7, 2, 1), encode_payloads([b"x"]))]
    )
    meta = RegionMeta(tables={1: TableMeta(next=2, offsets=[0]), 2: TableMeta(next=2, offsets=[1])})
    reader = EntryReader(log, TOPICS, region_places(meta, lambda table: table == 2), batch=1)
    assert [entry.payload async for entry in reader] == [b"x"]


async def test_a_record_of_another_region_is_told(log: EmbeddedLog) -> None:
    log.claim(TOPICS.data, 0, part=PART).append([Record(encode_key(RecordKind.ENTRY, 8, 1, 1), encode_payloads([b"x"]))])
    reader = EntryReader(log, TOPICS, table_places(RegionMeta(tables={1: TableMeta(next=2, offsets=[0])}), 1, SequenceRange(0, 9)))
    with pytest.raises(Damaged, match="of region 8"):
        await reader.next_batch()


async def test_what_is_read_is_decided_at_the_call_and_computed_beside_the_loop(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"a", b"b"])
    await region.write(2, [b"c"])
    places = region.look(lambda meta: (late_region_places(meta), late_table_places(meta, 1, SequenceRange(2, 9))))
    await region.write(1, [b"later"])
    await region.mark_delete_up_to(1, 1)
    loop, threads = threading.get_ident(), list[int]()
    for late, expected in zip(places, ([b"a", b"b", b"c"], [b"b"]), strict=True):

        def computed(late: LatePlaces = late) -> EntryPlaces:
            threads.append(threading.get_ident())
            return late()

        reader = EntryReader(log, TOPICS, computed, batch=2)
        found = [entry.payload async for entry in reader]
        assert (found, reader.left) == (expected, 0)
    assert len(threads) == 2
    assert loop not in threads


@pytest.mark.parametrize("again", [0, 3, 60], ids=["deleted", "shorter", "longer"])
async def test_a_reader_gives_nothing_of_a_region_that_was_made_anew(opened: OpenRegion, log: EmbeddedLog, again: int) -> None:
    """The records of the new one have the same tables, sequences and offsets."""
    region = await opened()
    for _ in range(20):
        await region.write(1, [b"old"])
    begun, late = [region.scan(batch=5), region.read(1, batch=5)], region.scan(batch=5)
    for reader in begun:
        assert {entry.payload for entry in await reader.next_batch()} == {b"old"}
    await region.close()
    log.delete_topic(TOPICS.data, part=PART)
    log.delete_topic(TOPICS.meta, part=PART)
    if again:
        create_region(log, TOPICS)
        made = await opened()
        for _ in range(again):
            await made.write(1, [b"new"])
        assert {entry.payload async for entry in made.read(1)} == {b"new"}
    error = pytest.raises(OffsetGone, match="deleted and created again") if again else pytest.raises(RegionNotFound, match="was deleted")
    for reader in (*begun, late, *begun):
        with error:
            await reader.next_batch()
