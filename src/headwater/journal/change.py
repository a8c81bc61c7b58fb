"""What a range of a partition's records changes in the store: heads, rows and the pointer."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import msgspec

from headwater.journal.event import Payload
from headwater.journal.head import HeadFold


class EventRow(msgspec.Struct, frozen=True, gc=False):
    """An event as a store keeps it: a row of `journal`, without the journal's own key. `metadata`: JSON, `{"header":…,"payload":…}`."""

    seq_nr: int
    timestamp: int  # milliseconds
    partition: int
    offset: int
    origin: str | None = None
    version: str | None = None
    record_id: uuid.UUID | None = None
    tags: tuple[str, ...] = ()
    metadata: str = "{}"
    payload: Payload | None = None
    headers: tuple[tuple[str, str], ...] = ()


def payload_bytes(rows: Iterable[EventRow]) -> int:
    """How many bytes the payloads of events have."""
    return sum(len(row.payload.data) for row in rows if row.payload is not None)


class JournalChange(msgspec.Struct, frozen=True, gc=False):
    """What a range changes in one journal. `rows`: the events that it leaves, in the order of the log, of the life that it ends in.

    Rows carry no `record_id`: the store gives them their head's.
    """

    id: str
    fold: HeadFold
    rows: tuple[EventRow, ...] = ()


class RangeChange(msgspec.Struct, frozen=True, gc=False):
    """What the records [start, end) of a partition change. Applied once, to a store whose pointer is `start - 1`."""

    topic: str
    partition: int
    generation: str
    start: int
    end: int


class PartitionChange(RangeChange, frozen=True, gc=False):
    """What a range of a topic of journals changes."""

    journals: tuple[JournalChange, ...] = ()
    timestamp: int = 0  # of the newest record, milliseconds
    epoch: int = 0  # of the partition behind the last record (`headwater.log.epochs`)
    counts: tuple[int, ...] = ()  # of partitions that the topic has had, older ones first, where it grew


class Pointer(msgspec.Struct, frozen=True, gc=False):
    """How far a partition is copied: `offset` is the last record that the store holds, -1 before the first."""

    offset: int
    created: int = 0
    updated: int = 0
    generation: str = ""
    epoch: int = 0  # with which the fold of the next record begins
    begun: int = -1
    """The end of a range whose change was begun and never finished, of stores without transactions; -1: there is none. Whoever applies
    goes on with a range that ends there; whoever reads folds the log at least up to there."""
