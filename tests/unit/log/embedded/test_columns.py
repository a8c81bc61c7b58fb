"""Arrow columns as batches of records: the same bytes that records one by one give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.core.errors import BadInput, TooLarge
from headwater.log.embedded import batches
from headwater.log.embedded.columns import decode_columns, encode_columns, reencode
from headwater.log.encoding import encode
from headwater.log.layout import close, encode_headers, seal
from headwater.log.record import Mode, Record

LIMIT = 1 << 20
RECORDS = [
    Record(b"a", b"1", timestamp=5),
    Record(None, b"", timestamp=6, mode=Mode.SYNC, op=2),
    Record(b"longer than twelve bytes", None, timestamp=7, headers=(("h", b"x"), ("n", None))),
    Record(b"", b"v" * 40, timestamp=8),
]


def table(records: list[Record]) -> pa.RecordBatch:
    columns = {
        "key": pa.array([one.key for one in records], pa.binary()),
        "value": pa.array([one.value for one in records], pa.binary()),
        "headers": pa.array([encode_headers(one.headers) if one.headers else None for one in records], pa.binary()),
        "timestamp": pa.array([one.timestamp for one in records], pa.int64()),
        "mode": pa.array([int(one.mode) for one in records], pa.uint8()),
        "op": pa.array([one.op for one in records], pa.uint8()),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("records", [RECORDS, RECORDS[:1], [Record(b"same", b"%d" % n, timestamp=1) for n in range(50)]])
def test_columns_give_the_bytes_that_records_give(records: list[Record]) -> None:
    by_columns, one_by_one = encode_columns(table(records), now=1, limit=LIMIT), encode(records, now=1)
    for batch in (by_columns, one_by_one):
        seal(batch, 7, 3)
    assert bytes(by_columns.buffer) == bytes(one_by_one.buffer)
    assert list(by_columns.starts) == list(one_by_one.starts)


def test_a_time_that_is_missing_is_now() -> None:
    batch = pa.RecordBatch.from_pydict({"key": pa.array([b"k"], pa.binary()), "value": pa.array([b"v"], pa.binary())})
    made, wanted = encode_columns(batch, now=42, limit=LIMIT), encode([Record(b"k", b"v")], now=42)
    for one in (made, wanted):
        seal(one, 0, 0)
    assert bytes(made.buffer) == bytes(wanted.buffer)


def test_what_cannot_be_a_record_is_refused() -> None:
    with pytest.raises(BadInput, match="empty batch"):
        encode_columns(table([]), now=1, limit=LIMIT)
    with pytest.raises(TooLarge):
        encode_columns(table(RECORDS), now=1, limit=10)
    wrong = table(RECORDS).set_column(4, "mode", pa.array([9] * len(RECORDS), pa.uint8()))
    with pytest.raises(BadInput, match="A mode outside of 0 to 3"):
        encode_columns(wrong, now=1, limit=LIMIT)


def test_records_become_one_new_batch_with_their_offsets(ground: Any) -> None:
    log = ground.open()
    log.create_topic("t")
    log.append("t", 0, RECORDS[:2])
    log.append("t", 0, RECORDS[2:])
    log.close()
    data, size = ground.mapped(ground.segments()[0])
    starts, stop = batches.walk(data, 0, size, 0)
    kept = np.array([starts[0], starts[3]], np.int64)
    made = reencode(data, size, kept)
    close(made.buffer, 4)
    path = ground.path / "made"
    path.write_bytes(bytes(made.buffer))
    fresh, length = ground.mapped(path)
    rows = np.asarray(made.starts, np.int64)
    assert batches.check(fresh, length, rows, length, 0).records == 2
    found = decode_columns(fresh, length, rows)
    assert found.column("offset").to_pylist() == [0, 3]
    assert found.column("value").to_pylist() == [b"1", b"v" * 40]
    assert stop <= size
