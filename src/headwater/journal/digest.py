"""The digest of a partition's copy: equal for two stores that hold the same, whichever engine keeps them and however they got it."""

from __future__ import annotations

import hashlib

import msgspec

from headwater.journal.change import EventRow
from headwater.journal.event import Payload
from headwater.journal.head import Head
from headwater.journal.snapshot import Snapshot
from headwater.journal.store import PartitionView, RingView

_encode = msgspec.msgpack.Encoder().encode


def digest(view: PartitionView) -> str:
    """SHA-256, in hex, of the pointer, all heads and all rows, in the order of ids, numbers and offsets.

    It leaves out what depends on the process that copied: when the pointer was set, and the segment size of a journal. Tags are a set and
    headers a map, so their order does not count.
    """
    pointer = view.pointer
    hashed = hashlib.sha256(_encode(("pointer", pointer.offset, pointer.generation, pointer.epoch)))
    after: str | None = None
    while page := view.heads(after):
        for id, head in page:
            hashed.update(_encode(head_content(id, head)))
            for rows in view.rows(id, head, 1):
                for row in rows:
                    hashed.update(_encode(row_content(row)))
        after = page[-1][0]
    return hashed.hexdigest()


def ring_digest(view: RingView) -> str:
    """SHA-256, in hex, of the pointer of snapshots and all rings, in the order of ids and slots."""
    hashed = hashlib.sha256(_encode(("pointer", view.pointer.offset, view.pointer.generation)))
    after: str | None = None
    while ids := view.ids(after):
        for id in ids:
            for slot, snapshot in sorted(view.ring(id).slots.items()):
                hashed.update(_encode((id, slot, *snapshot_content(snapshot, view.payload(id, slot, snapshot)))))
        after = ids[-1]
    return hashed.hexdigest()


def snapshot_content(snapshot: Snapshot, payload: Payload) -> tuple[object, ...]:
    """What of a snapshot must be equal in two stores."""
    return (
        snapshot.seq_nr,
        snapshot.timestamp,
        snapshot.offset,
        snapshot.at,
        snapshot.record_id,
        snapshot.origin,
        snapshot.version,
        payload.kind,
        payload.data,
    )


def head_content(id: str, head: Head) -> tuple[object, ...]:
    """What of a head must be equal in two stores."""
    return (
        "head",
        id,
        head.partition,
        head.offset,
        head.seq_nr,
        head.delete_to,
        head.created,
        head.updated,
        head.expire_after,
        head.expire_on,
        head.record_id,
        head.origin,
    )


def row_content(row: EventRow) -> tuple[object, ...]:
    """What of a row must be equal in two stores."""
    return (
        "row",
        row.seq_nr,
        row.timestamp,
        row.partition,
        row.offset,
        row.origin,
        row.version,
        row.record_id,
        sorted(set(row.tags)),
        row.metadata,
        row.payload,
        sorted(dict(row.headers).items()),
    )
