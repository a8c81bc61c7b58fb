from __future__ import annotations

from typing import Any

import pytest
from tests.unit.wal.conftest import TOPICS

from headwater.core.errors import BadInput, Damaged
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.wal.bounds import SequenceRange
from headwater.wal.entries import EntryReader, region_places, table_places
from headwater.wal.layout import RecordKind, encode_key, encode_payloads
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
