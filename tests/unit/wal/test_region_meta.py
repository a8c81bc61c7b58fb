from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.arrow import SCHEMA
from headwater.wal.bounds import SequenceRange
from headwater.wal.entries import region_places, table_places
from headwater.wal.fold import RegionFold
from headwater.wal.layout import EMPTY, MalformedRecord, RecordKind, encode_key
from headwater.wal.region_meta import RegionChanges, RegionMeta
from headwater.wal.snapshot import decode_chunk, encode_snapshot, joined
from headwater.wal.table_meta import TableMeta

ENTRY, MARK, DROP, MOVE = RecordKind


def test_the_picture_of_the_seed() -> None:
    """A snapshot at 64 with next 5, marked 2 and (2,16)(3,16)(4,31), then 5@72 6@81 7@90 in a log that ends at 100."""
    meta = RegionMeta()
    for sequence, count, offset in ((1, 1, 3), (2, 2, 16), (4, 1, 31)):
        meta.apply(ENTRY, 7, sequence, count, offset)
    meta.apply(MARK, 7, 2, 1, 40)
    meta.pass_over(63)
    assert (meta.watermark, meta.tables[7].next, meta.tables[7].marked, meta.tables[7].watermark) == (64, 5, 2, 32)
    meta = joined([decode_chunk(value) for value in encode_snapshot(meta, 1000)])
    for sequence, offset in ((5, 72), (6, 81), (7, 90)):
        meta.apply(ENTRY, 7, sequence, 1, offset)
    meta.pass_over(100)
    table = meta.tables[7]
    assert (table.next, table.marked, table.watermark, meta.watermark) == (8, 2, 91, 101)
    assert table.offsets(0, 9) == [16, 16, 31, 72, 81, 90]
    assert meta.safe_offset == 16


def test_a_region_needs_what_its_neediest_table_needs() -> None:
    meta = RegionMeta()
    assert meta.safe_offset == 0
    meta.apply(ENTRY, 1, 1, 1, 10)
    meta.apply(ENTRY, 2, 1, 1, 40)
    assert meta.safe_offset == 10
    meta.apply(MARK, 1, 2, 1, 41)
    assert meta.safe_offset == 40
    meta.apply(DROP, 2, 2, 1, 42)
    assert (meta.safe_offset, list(meta.tables)) == (43, [1])


def test_a_table_that_is_written_after_its_drop_is_a_new_one() -> None:
    meta = RegionMeta()
    for offset in range(3):
        meta.apply(ENTRY, 1, offset + 1, 1, offset)
    meta.apply(DROP, 1, 4, 1, 3)
    meta.apply(ENTRY, 1, 1, 1, 4)
    assert (meta.tables[1].next, meta.safe_offset) == (2, 4)


@pytest.mark.parametrize(
    ("kind", "table", "sequence", "why"),
    [
        (ENTRY, 1, 1, "2 is next"),
        (ENTRY, 2, 5, "1 is next"),
        (MARK, 2, 1, "a mark of table 2, which has no entries"),
        (DROP, 2, 1, "a drop of table 2"),
        (MOVE, 2, 1, "a move of table 2"),
        (DROP, 1, 1, "2 is next"),
        (MARK, 1, 3, "marks up to 3"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_and_changes_nothing(kind: RecordKind, table: int, sequence: int, why: str) -> None:
    meta = RegionMeta()
    meta.apply(ENTRY, 1, 1, 1, 0)
    with pytest.raises(MalformedRecord, match=why):
        meta.apply(kind, table, sequence, 1, 5)
    expected = RegionMeta()
    expected.apply(ENTRY, 1, 1, 1, 0)
    assert meta == expected


def test_records_come_in_the_order_of_their_offsets() -> None:
    meta = RegionMeta(watermark=7)
    for call in (lambda: meta.apply(ENTRY, 1, 1, 1, 6), lambda: meta.pass_over(6)):
        with pytest.raises(MalformedRecord, match="before 7"):
            call()


# -- against a model --------------------------------------------------------------------------------------------

Step = tuple[RecordKind, int, int, int, int]


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Records that a region could have, at growing offsets: kind, table, sequence, count, offset."""
    steps: list[Step] = []
    numbers: dict[int, list[int]] = {}  # by table: next, marked
    offset = 0
    for _ in range(draw(st.integers(0, 40))):
        table, count = draw(st.integers(0, 3)), draw(st.integers(1, 3))
        kind = draw(st.sampled_from(RecordKind)) if table in numbers else ENTRY
        next, marked = numbers.get(table, [1, 1])
        sequence = next
        if kind is MARK:
            sequence = draw(st.integers(marked, next))
        elif kind is MOVE:
            if marked == next:
                continue
            sequence = draw(st.integers(marked, next - 1))
            count = min(count, next - sequence)
        steps.append((kind, table, sequence, count, offset))
        offset += draw(st.integers(1, 300))
        if kind is DROP:
            del numbers[table]
        else:
            numbers[table] = [next + count, marked] if kind is ENTRY else [next, sequence] if kind is MARK else [next, marked]
    return steps


def model(steps: list[Step]) -> dict[int, dict[int, int]]:
    """By table, the offsets of its live sequences."""
    live: dict[int, dict[int, int]] = {}
    for kind, table, sequence, count, offset in steps:
        if kind in (ENTRY, MOVE):
            live.setdefault(table, {}).update(dict.fromkeys(range(sequence, sequence + count), offset))
        elif kind is MARK:
            live[table] = {one: at for one, at in live[table].items() if one >= sequence}
        else:
            del live[table]
    return live


def folded(steps: list[Step], meta: RegionMeta | None = None) -> RegionMeta:
    meta = RegionMeta() if meta is None else meta
    for step in steps:
        meta.apply(*step)
    return meta


@given(histories())
def test_the_fold_is_the_models(steps: list[Step]) -> None:
    meta, expected = folded(steps), model(steps)
    assert {
        number: dict(zip(range(table.marked, table.next), table.offsets(0, 10**9), strict=True)) for number, table in meta.tables.items()
    } == (expected)
    assert meta.safe_offset == min((at for table in expected.values() for at in table.values()), default=meta.watermark)


@given(histories(), st.integers(0, 40), st.integers(130, 400))
def test_a_snapshot_and_the_tail_are_the_full_scan(steps: list[Step], cut: int, limit: int) -> None:
    before = folded(steps[:cut])
    values = encode_snapshot(before, limit)
    assert all(len(value) <= limit for value in values)
    restored = joined([decode_chunk(value) for value in values])
    assert restored == before
    assert folded(steps[cut:], restored) == folded(steps)


def in_columns(*changes: tuple[RecordKind, int, int, int]) -> RegionChanges:
    return RegionChanges(*zip(*changes, strict=True))


def test_many_records_change_what_one_by_one_they_would() -> None:
    changes = [(ENTRY, 1, 1, 1), (ENTRY, 2, 1, 3), (ENTRY, 1, 2, 1), (MARK, 1, 2, 1), (MOVE, 2, 2, 2), (DROP, 1, 3, 1), (ENTRY, 1, 1, 1)]
    offsets = [3, 4, 5, 6, 7, 9, 12]
    one, many = RegionMeta(), RegionMeta()
    for change, offset in zip(changes, offsets, strict=True):
        one.apply(*change, offset)
    many.apply_all(in_columns(*changes), offsets)
    assert many == one
    assert many.watermark == 13


def test_of_many_records_those_before_a_wrong_one_are_applied() -> None:
    for wrong, offset in (((ENTRY, 1, 7, 1), 5), ((MARK, 9, 1, 1), 5), ((ENTRY, 1, 2, 1), 3)):
        meta = RegionMeta()
        with pytest.raises(MalformedRecord):
            meta.apply_all(in_columns((ENTRY, 1, 1, 1), wrong, (ENTRY, 2, 1, 1)), [4, offset, 6])
        assert (meta.watermark, meta.tables[1].next, list(meta.tables)) == (5, 2, [1])


def test_a_copy_is_left_as_it_was() -> None:
    meta = RegionMeta(epoch=3)
    meta.apply_all(in_columns((ENTRY, 1, 1, 1), (ENTRY, 2, 1, 3)), [0, 1])
    copy = meta.copied()
    assert copy == meta
    meta.apply_all(in_columns((ENTRY, 1, 2, 1), (MARK, 2, 3, 1), (MOVE, 2, 3, 1), (DROP, 2, 4, 1)), [2, 3, 4, 5])
    assert (copy.watermark, copy.epoch, sorted(copy.tables), copy.live) == (2, 3, [1, 2], 4)
    assert joined([decode_chunk(value) for value in encode_snapshot(copy, 1000)]) == copy


# -- large numbers, and many --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [2**63 - 3, 2**63, 2**64 - 12])
def test_sequences_and_tables_beyond_63_bits_are_counted_and_placed(base: int) -> None:
    """They do not fit into the columns' usual numbers, which have a sign."""
    tables = {number: TableMeta(next=base, marked=base - 2, watermark=9, offsets=[7, 8]) for number in (base, 2**64 - 1, *range(1, 9))}
    meta = joined([decode_chunk(value) for value in encode_snapshot(RegionMeta(watermark=9, tables=tables), 1000)])
    rows = [(encode_key(ENTRY, 2**64 - 1, table, base + turn), EMPTY) for turn in range(8) for table in tables]
    column = pa.array([EMPTY] * 200, pa.binary_view())
    many = pa.RecordBatch.from_arrays(
        [
            pa.array(range(9, 9 + len(rows)), SCHEMA.field("offset").type),
            pa.array([0] * len(rows), SCHEMA.field("timestamp").type),
            pa.array([key for key, _ in rows], SCHEMA.field("key").type),
            column[: len(rows)].cast(SCHEMA.field("value").type),
            pa.nulls(len(rows), SCHEMA.field("headers").type),
            pa.array([0] * len(rows), pa.uint8()),
            pa.array([0] * len(rows), pa.uint8()),
        ],
        schema=SCHEMA,
    )
    RegionFold(meta, "t", 2**64 - 1).apply(many)
    for number in tables:
        assert (meta.tables[number].next, meta.tables[number].live) == (base + 8, 10)
        places = table_places(meta, number, SequenceRange(base - 1, 2**64 - 1))
        assert places.sequences.tolist() == list(range(base - 1, base + 8))
    places = region_places(meta)
    assert sorted(set(places.tables.tolist())) == sorted(tables)
    assert max(places.sequences.tolist()) == base + 7
    assert joined([decode_chunk(value) for value in encode_snapshot(meta, 1000)]) == meta


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_tables_are_stored_in_small_chunks(count: int) -> None:
    tables = {number: TableMeta(next=3, marked=2, watermark=9, offsets=[number]) for number in range(count)}
    meta = RegionMeta(watermark=10**6, tables=tables)
    values = encode_snapshot(meta, 1000)
    assert len(values) > count // 100
    assert joined([decode_chunk(value) for value in values]) == meta


@pytest.mark.parametrize(
    ("sequences", "offsets", "tables"),
    [
        (range(2, 10), range(5, 13), [1] * 8),
        (range(2, 10), [*range(5, 12), 20], [1] * 8),
        (range(2, 10), range(5, 21, 2), [1] * 8),
        ([2, 3, 4, 5, 1, 2, 6, 7], range(5, 13), [1, 1, 1, 1, 2, 2, 1, 1]),
    ],
)
def test_records_that_lie_one_behind_the_other_are_applied_as_one_by_one(
    sequences: Sequence[int], offsets: Sequence[int], tables: list[int]
) -> None:
    alone, together = RegionMeta(), RegionMeta()
    for meta in (alone, together):
        meta.apply(ENTRY, 1, 1, 1, 0)
    for table, sequence, offset in zip(tables, sequences, offsets, strict=True):
        alone.apply(ENTRY, table, sequence, 1, offset)
    together.apply_all(RegionChanges((ENTRY,) * 8, tuple(tables), tuple(sequences), (1,) * 8), offsets)
    assert alone == together
    assert together.tables[1].offsets(1, 99) == alone.tables[1].offsets(1, 99)


@pytest.mark.parametrize(("sequences", "offsets"), [(range(3, 11), range(5, 13)), (range(2, 10), range(8))])
def test_a_run_that_does_not_follow_is_refused(sequences: range, offsets: range) -> None:
    meta = RegionMeta()
    meta.apply(ENTRY, 1, 1, 1, 0)
    with pytest.raises(MalformedRecord):
        meta.apply_all(RegionChanges((ENTRY,) * 8, (1,) * 8, tuple(sequences), (1,) * 8), offsets)
    assert meta.tables[1].next == 2
