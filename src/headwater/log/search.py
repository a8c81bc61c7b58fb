"""Searches a partition for the records of one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.log import Log
from headwater.log.record import Record

if TYPE_CHECKING:
    import pyarrow as pa


def records_with_key(
    log: Log, topic: str, partition: int, start: int, end: int, key: bytes, *, limit: int, most: int | None = None
) -> tuple[list[Record], int]:
    """The first `limit` records of [start, end) with this key, and the offset at which to continue: `end` when all was searched. `most`:
    the number of offsets to search in one call, which bounds the time for a rare key. Compares whole columns; only matches become records.
    Errors: as `Log.scan`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    stop = end if most is None else min(end, start + most)
    wanted, matching = pa.scalar(key, pa.binary()), list[Record]()
    for batch in log.scan(topic, partition, start, stop):
        for row in pc.indices_nonzero(pc.equal(batch.column("key").cast(pa.binary()), wanted)).to_pylist():
            if len(matching) == limit:
                return matching, (matching[-1].offset or 0) + 1
            matching.append(_record(batch, row))
    return matching, stop


def _record(batch: pa.RecordBatch, row: int) -> Record:
    from headwater.log.layout import decode_headers

    values: dict[str, Any] = {name: batch.column(name)[row].as_py() for name in batch.schema.names}
    block = values.pop("headers")
    return Record(**values, headers=() if block is None else tuple(decode_headers(block)))
