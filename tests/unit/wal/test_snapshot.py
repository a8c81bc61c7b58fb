from __future__ import annotations

import numpy as np
import pytest

from headwater.wal.layout import MalformedRecord
from headwater.wal.region_meta import RegionMeta
from headwater.wal.snapshot import decode_chunk, encode_snapshot, joined
from headwater.wal.table_meta import TableMeta

# Table 0 with next 42, marked 40, watermark 142 and safe offset 140, as the WAL on Kafka stores it.
OLD = bytes.fromhex("00 12 0a 10 2a 18 28 20 8e 01 28 8c 01")


def meta_of(*tables: int, each: int = 3) -> RegionMeta:
    made = {number: TableMeta(next=each + 1, watermark=9, offsets=range(each)) for number in tables}
    return RegionMeta(watermark=100, epoch=7, tables=made)


def restored(values: list[bytes]) -> RegionMeta:
    return joined([decode_chunk(value) for value in values])


def test_the_known_fields_have_the_bytes_of_the_wal_on_kafka() -> None:
    meta = RegionMeta(watermark=150, tables={0: TableMeta(next=42, marked=40, watermark=142, offsets=[140, 141])})
    [value] = encode_snapshot(meta, 1000)
    assert value.startswith(OLD)
    assert restored([value]) == meta


def test_a_snapshot_of_the_wal_on_kafka_is_read_without_a_map() -> None:
    chunk = decode_chunk(OLD)
    assert (chunk.count, chunk.tables) == (0, ((0, 42, 40, 142, 140),))
    with pytest.raises(MalformedRecord, match="missing"):
        joined([chunk])


def test_a_safe_offset_of_zero_is_not_the_same_as_none() -> None:
    for offsets, safe in (([0], 0), ([], None)):
        meta = RegionMeta(watermark=5, tables={3: TableMeta(next=2, marked=2 - len(offsets), watermark=1, offsets=offsets)})
        [value] = encode_snapshot(meta, 1000)
        assert decode_chunk(value).tables[0][4] == safe
        assert restored([value]) == meta


def test_an_empty_region_has_a_snapshot() -> None:
    assert restored(encode_snapshot(RegionMeta(watermark=12, epoch=3), 1000)) == RegionMeta(watermark=12, epoch=3)


def test_the_largest_numbers_come_back() -> None:
    table = TableMeta(next=2**64 - 1, marked=2**64 - 2, watermark=2**63 - 1, offsets=[2**63 - 2])
    meta = RegionMeta(watermark=2**63 - 1, epoch=2**64 - 1, tables={2**64 - 1: table})
    assert restored(encode_snapshot(meta, 1000)) == meta


def test_a_long_snapshot_comes_in_chunks_that_all_must_be_there() -> None:
    values = encode_snapshot(meta_of(*range(40), each=50), 200)
    assert len(values) > 5
    assert max(map(len, values)) <= 200
    assert restored(values) == meta_of(*range(40), each=50)
    for number in range(len(values)):
        with pytest.raises(MalformedRecord):
            restored(values[:number] + values[number + 1 :])
    with pytest.raises(MalformedRecord):
        restored(list(reversed(values)))
    other = encode_snapshot(RegionMeta(watermark=101, epoch=7, tables=meta_of(*range(40), each=50).tables), 200)
    with pytest.raises(MalformedRecord, match="several snapshots"):
        restored([*values[:-1], other[-1]])


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    [value] = encode_snapshot(meta_of(1, 2, 3), 1000)
    for at in range(len(value)):
        for bit in range(8):
            rotten = bytearray(value)
            rotten[at] ^= 1 << bit
            with pytest.raises(MalformedRecord):
                restored([bytes(rotten)])
        with pytest.raises(MalformedRecord):
            restored([value[:at]])


def test_a_live_payload_takes_few_bytes() -> None:
    """A thousand tables that write in turn: each needs one offset in a thousand."""
    tables = {number: TableMeta(next=101, watermark=10**5, offsets=np.arange(number, 10**5, 1000).tolist()) for number in range(1000)}
    values = encode_snapshot(RegionMeta(watermark=10**5, tables=tables), 1 << 20)
    assert sum(map(len, values)) < 4 * 100_000


def test_tables_know_what_they_need_whatever_the_order_of_their_offsets() -> None:
    """A moved payload lies behind later ones. The lowest offset of its table is then not the first."""
    columns = {1: [5, 6, 7], 2: [9, 3, 8], 3: [], 4: [1, 2], 5: [4, 4, 2], 6: [50, 10]}
    made = {number: TableMeta(next=len(offsets) + 1, watermark=60, offsets=offsets) for number, offsets in columns.items()}
    found = restored(encode_snapshot(RegionMeta(watermark=100, tables=made), 1000))
    assert {number: table.safe_offset for number, table in found.tables.items()} == {1: 5, 2: 3, 3: None, 4: 1, 5: 2, 6: 10}
    assert found.safe_offset == 1


def test_a_snapshot_is_bound_to_the_generation_of_its_log() -> None:
    meta = meta_of(*range(40), each=50)
    values = encode_snapshot(meta, 200, "generation-of-the-topic")
    assert max(map(len, values)) <= 200
    assert {decode_chunk(value).generation for value in values} == {"generation-of-the-topic"}
    assert restored(values) == meta
    with pytest.raises(MalformedRecord, match="several snapshots"):
        restored([values[0], *encode_snapshot(meta, 200, "generation-of-another-t")[1:]])


def test_a_snapshot_of_before_has_no_generation() -> None:
    [value] = encode_snapshot(meta_of(1), 1000)
    assert decode_chunk(value).generation == ""
