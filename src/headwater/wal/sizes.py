"""How many bytes lie in a range of a region's log: exactly, by reading all of it, or about, by some records of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import OffsetGone
from headwater.log import Log
from headwater.log.record import Record
from headwater.wal.layout import MalformedRecord, RecordKind, decode_key, payload_count
from headwater.wal.recovery import Beat

_SOME = 32  # records that are read for an estimate


class LogSize(NamedTuple):
    """Records of a range, and the bytes of their keys and values."""

    records: int
    bytes: int


class MeanSizes(NamedTuple):
    """Bytes of an offset, and of a payload."""

    record: float
    payload: float


def measured(log: Log, topic: str, start: int, end: int, beat: Beat = lambda: None) -> LogSize:
    """The records of [start, end). Blocking; reads all of them. What was removed meanwhile is not counted. `beat`: is called between two
    batches, and may raise."""
    records = size = 0
    start = max(start, log.bounds(topic, 0).start)
    if start >= end:
        return LogSize(0, 0)
    try:
        for batch in log.scan(topic, 0, start, end):
            beat()
            records += len(batch)
            size += column_length(batch.column("key")) + column_length(batch.column("value"))
    except OffsetGone:  # a clean has come in between
        return measured(log, topic, log.bounds(topic, 0).start, end, beat)
    return LogSize(records, size)


def mean_sizes(log: Log, topic: str) -> MeanSizes:
    """About how many bytes an offset of a data topic takes, and a payload: the means of some that are spread over all. Blocking."""
    bounds = log.bounds(topic, 0)
    count = min(_SOME, bounds.end - bounds.start)
    if not count:
        return MeanSizes(0.0, 0.0)
    offsets = [bounds.start + place * (bounds.end - bounds.start) // count for place in range(count)]
    records = [record for record in log.read_at(topic, 0, offsets) if record is not None]
    total = sum(len(record.key or b"") + len(record.value or b"") for record in records)
    entries = [(len(record.value or b""), payloads) for record in records if (payloads := _payloads(record))]
    return MeanSizes(total / count, sum(size for size, _ in entries) / max(1, sum(payloads for _, payloads in entries)))


def _payloads(record: Record) -> int:
    """How many payloads a record brings."""
    try:
        brings = decode_key(record.key).kind in (RecordKind.ENTRY, RecordKind.MOVE)
        return payload_count(record.value) if brings else 0
    except MalformedRecord:  # a claim, or of somebody else
        return 0


def column_length(column: pa.Array) -> int:
    """Bytes of all values of a column."""
    if column.type == pa.binary_view():
        # The first four bytes of a view are the length of its value: the value itself need not be read.
        views = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * 16 : (column.offset + len(column)) * 16].reshape(-1, 16)
        lengths = np.ascontiguousarray(views[:, :4]).view(np.int32)[:, 0]
        return int(lengths.sum(dtype=np.int64, where=~np.asarray(column.is_null()) if column.null_count else True))
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)
