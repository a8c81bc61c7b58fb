"""Records of documents as the log has them, those that count by the rule of claims."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.errors import OffsetGone
from headwater.documents.change import decode_record
from headwater.documents.store import AppendedRecord
from headwater.log import Log
from headwater.log.epochs import Epochs

SLICE = 5000
"""Records that are read, and applied, at once."""


def replay(
    log: Log, topic: str, partition: int, start: int, end: int, *, epoch: int | None = None
) -> Iterator[tuple[list[AppendedRecord], int]]:
    """The records of [start, end) in slices, each with the offset behind it; the last one's is `end`. Nothing where the range is empty.

    A fold that begins at an applied offset knows its epoch by the record before it, where the log still has it. One that begins elsewhere
    is given its `epoch`: the record before it may be one that does not count.
    Errors: `OffsetGone` where the log begins behind `start`; `Damaged` for what is no record of documents; those of the log.
    """
    epochs, kafka = Epochs(epoch or 0), log.engine == "kafka"
    if kafka and start > 0 and epoch is None:
        try:
            for record in log.read(topic, partition, start - 1, limit=1):
                epochs.admits(record)
        except OffsetGone:
            pass  # then the records at the beginning of the log say it
    while start < end:
        records = log.read(topic, partition, start, limit=min(SLICE, end - start))
        appended_records = []
        for record in records:
            offset = record.offset or 0
            if offset < end and (not kafka or epochs.admits(record)):
                value = decode_record(record.value, f"{topic}/{partition} at offset {offset}")
                appended_records.append(AppendedRecord(offset, record.timestamp or 0, value))
        start = min(end, (records[-1].offset or 0) + 1) if records else end
        yield appended_records, start
