"""The digest of a partition's copy: equal for two stores that hold the same, whichever engine keeps them and however they got it."""

from __future__ import annotations

import hashlib

import msgspec

from headwater.journal.change import EventRow
from headwater.journal.head import Head
from headwater.journal.store import PartitionView

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
