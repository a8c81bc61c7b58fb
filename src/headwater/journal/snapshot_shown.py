"""Snapshots as the JSON of answers, and as Python sees them."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.journal.answers import ShownSnapshot
from headwater.journal.event import KIND_NAMES, Payload, PayloadKind
from headwater.journal.shown import show_payload
from headwater.journal.snapshot import Snapshot
from headwater.log.json_form import binary_of
from headwater.wire.times import read_time, show_time


class SnapshotRecord(msgspec.Struct, frozen=True):
    """A snapshot as `load` returns it. `seq_nr`: the event up to which it holds. `payload`: None in a list."""

    seq_nr: int
    payload: Any
    timestamp: int  # milliseconds since 1970, UTC
    origin: str | None = None
    version: str | None = None
    record_id: str | None = None  # of the journal's life


def show_snapshot(snapshot: Snapshot) -> ShownSnapshot:
    """A snapshot as JSON, with its payload where it has one. Stored JSON goes out as it was given."""
    return ShownSnapshot(
        seq_nr=snapshot.seq_nr,
        timestamp=show_time(snapshot.timestamp),
        payload_type=KIND_NAMES[snapshot.kind],
        offset=snapshot.offset,
        origin=snapshot.origin,
        version=snapshot.version,
        record_id=None if snapshot.record_id is None else str(snapshot.record_id),
        payload=None if snapshot.payload is None else show_payload(snapshot.payload),
    )


def snapshot_record(shown: ShownSnapshot) -> SnapshotRecord:
    """The snapshot that `show_snapshot` has shown."""
    payload = shown.payload
    if isinstance(payload, msgspec.Raw):
        payload = Payload(PayloadKind.JSON, bytes(payload)).value()
    if shown.payload_type == KIND_NAMES[PayloadKind.BINARY] and payload is not None:
        payload = binary_of(payload)
    return SnapshotRecord(shown.seq_nr, payload, read_time(shown.timestamp or 0), shown.origin, shown.version, shown.record_id)
