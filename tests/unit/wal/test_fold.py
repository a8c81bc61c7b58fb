from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.core.errors import Damaged
from headwater.log.arrow import SCHEMA
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.epochs import CLAIM, EPOCH, epoch_at, mark
from headwater.log.layout import encode_headers
from headwater.log.record import Record
from headwater.wal.fold import RegionFold
from headwater.wal.layout import EMPTY, RecordKind, encode_key, encode_payloads
from headwater.wal.region_meta import RegionMeta

ENTRY, MARK, DROP, MOVE = RecordKind
Row = tuple[bytes | None, bytes | None, bytes | None]


def entry(table: int, sequence: int, count: int = 1, region: int = 5) -> Row:
    return encode_key(ENTRY, region, table, sequence), encode_payloads([b"payload"] * count), None


def batch(rows: list[Row], start: int = 0) -> pa.RecordBatch:
    keys, values, headers = ([row[place] for row in rows] for place in range(3))
    zeros = pa.array([0] * len(rows), pa.uint8())
    columns = [range(start, start + len(rows)), [0] * len(rows), keys, values, headers, zeros, zeros]
    return pa.RecordBatch.from_arrays(
        [column if isinstance(column, pa.Array) else pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def folded(rows: list[Row], *, size: int = 10_000) -> RegionMeta:
    meta = RegionMeta()
    fold = RegionFold(meta, "wal_data_5", 5)
    for start in range(0, len(rows), size):
        fold.apply(batch(rows[start : start + size], start))
    assert fold.records == len(rows)
    return meta


def history(seed: int, length: int = 800) -> list[Row]:
    """Entries of many tables, and now and then a mark, a move or a drop."""
    some, rows, numbers = random.Random(seed), [], dict[int, list[int]]()
    while len(rows) < length:
        table, dice = some.randrange(20), some.random()
        next, marked = numbers.setdefault(table, [1, 1])
        if dice > 0.01 or next == 1:
            count = some.choice([1, 1, 1, 3])
            rows.append(entry(table, next, count))
            numbers[table][0] += count
        elif dice > 0.005:
            numbers[table][1] = some.randrange(marked, next + 1)
            rows.append((encode_key(MARK, 5, table, numbers[table][1]), EMPTY, None))
        elif dice > 0.003 and marked < next:
            rows.append((encode_key(MOVE, 5, table, marked), encode_payloads([b"p"]), None))
        else:
            rows.append((encode_key(DROP, 5, table, next), EMPTY, None))
            del numbers[table]
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_columns_give_what_records_one_by_one_give(seed: int) -> None:
    rows = history(seed)
    assert folded(rows) == folded(rows, size=1)


def test_a_log_is_folded_as_it_is_scanned(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("wal_data_5")
        rows = history(9, 500)
        log.append("wal_data_5", 0, [Record(key, value) for key, value, _ in rows])
        meta = RegionMeta()
        fold = RegionFold(meta, "wal_data_5", 5)
        for found in log.scan("wal_data_5", 0, 0, batch=200):
            fold.apply(found)
    assert meta == folded(rows)


def test_records_of_a_writer_that_had_lost_the_region_do_not_count() -> None:
    first, second = epoch_at(0, "g"), epoch_at(102, "g")
    claims = [(None, None, encode_headers([(CLAIM, mark(epoch))])) for epoch in (first, second)]
    by = {epoch: encode_headers([(EPOCH, mark(epoch))]) for epoch in (first, second)}
    rows = [claims[0], *((*entry(1, number)[:2], by[first]) for number in range(1, 103)), claims[1]]
    rows += [(*entry(1, 103)[:2], by[first]) for _ in range(100)]  # the paused owner's
    rows += [(*entry(1, number)[:2], by[second]) for number in range(103, 203)]
    meta = folded(rows)
    assert meta == folded(rows, size=7)
    assert (meta.tables[1].next, meta.watermark, meta.epoch) == (203, len(rows), second)
    assert meta.tables[1].offsets(102, 103) == [102, 204]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ((None, b"\0", None), "0 bytes"),
        (entry(1, 200, region=6), "region 6"),
        (entry(1, 7), "200 is next"),
        (entry(9, 2), "1 is next"),
        ((encode_key(ENTRY, 5, 1, 200), None, None), "no value"),
        ((encode_key(ENTRY, 5, 1, 200), b"", None), "no value"),
        ((encode_key(ENTRY, 5, 1, 200), b"\7x", None), "version 7"),
        ((encode_key(ENTRY, 5, 1, 200), b"\1\0\0\0\0", None), "0 payloads"),
        ((encode_key(MARK, 5, 2, 1), EMPTY, None), "table 2, which has no entries"),
    ],
)
def test_a_record_that_does_not_fit_is_named(row: Row, why: str) -> None:
    rows = [*(entry(1, number) for number in range(1, 200)), row, *(entry(3, number) for number in range(1, 200))]
    with pytest.raises(Damaged, match=f"Record 199 of wal_data_5 does not fit into region 5: .*{why}"):
        folded(rows)


@pytest.mark.parametrize("place", [0, 70, 199])
def test_what_lies_before_a_bad_record_is_applied(place: int) -> None:
    rows = [entry(1, number) for number in range(1, 201)]
    meta = RegionMeta()
    with pytest.raises(Damaged, match=f"Record {place} "):
        RegionFold(meta, "wal_data_5", 5).apply(batch([*rows[:place], (b"key", b"\0", None), *rows[place:]]))
    assert meta == folded(rows[:place])


@pytest.mark.parametrize("size", [1, 3, 5, 1000])
def test_a_forged_mark_counts_by_its_offset_however_the_log_is_cut_into_batches(size: int) -> None:
    """Of records with one mark those at low offsets are foreign, and the later ones raise the epoch, as for the owner itself."""
    claim = (None, None, encode_headers([(CLAIM, mark(epoch_at(0, "g")))]))
    owner = encode_headers([(EPOCH, mark(epoch_at(0, "g")))])
    forged = encode_headers([(EPOCH, mark(104 << 16))])
    rows = [claim, *((*entry(1, number)[:2], owner) for number in range(1, 100))]  # offsets 0 to 99
    rows += [(*entry(2, 1)[:2], forged) for _ in range(5)]  # at 100 to 104, of which the last one is believed
    rows += [(*entry(1, 100)[:2], owner)]  # the owner has lost the region
    meta = folded(rows, size=size)
    assert (meta.tables[1].next, meta.tables[2].offsets(0, 9), meta.epoch) == (100, [104], 104 << 16)
