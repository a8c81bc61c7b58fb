"""What happened to a region, by the records of its data topic."""

from __future__ import annotations

from typing import Literal

from headwater.log.epochs import Epochs
from headwater.log.record import Record
from headwater.wal.answers import RegionEvent
from headwater.wal.layout import MalformedRecord, RecordKind, decode_key, payload_count
from headwater.wal.why import show_text

_KINDS: dict[RecordKind, Literal["write", "mark", "drop", "move"]] = {
    RecordKind.ENTRY: "write",
    RecordKind.MARK: "mark",
    RecordKind.DROP: "drop",
    RecordKind.MOVE: "move",
}


def event_of(record: Record, epochs: Epochs) -> RegionEvent | None:
    """The event that a record is; None for a claim, for a record that does not count, and for what is no record of a region."""
    if not epochs.admits(record):
        return None
    try:
        kind, _, table, sequence = decode_key(record.key)
        count = payload_count(record.value)
    except MalformedRecord:
        return None
    brings = kind in (RecordKind.ENTRY, RecordKind.MOVE)
    return RegionEvent(
        kind=_KINDS[kind],
        offset=record.offset or 0,
        time=show_text(record.timestamp),
        table=table,
        first=sequence if brings else None,
        last=sequence + count - 1 if brings else sequence - 1,
    )
