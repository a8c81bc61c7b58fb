"""The answers of the operations on journals: their JSON, and its description for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from headwater.journal.topics import Writers

Count = Annotated[int, msgspec.Meta(ge=0)]
SeqNr = Annotated[int, msgspec.Meta(ge=1)]


class ShownJournals(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of journals. `writers`: `owner`, headwater numbers events; `shared`, others write, too, and events bring their numbers.
    `cipher`: encrypts the payloads of its events; None: they are clear."""

    topic: str
    partitions: Count
    writers: Writers
    generation: str = ""
    cipher: str | None = None
    created: bool = False
    dry_run: bool = False


class JournalPartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: what its log keeps, from `start` up to, not including, `end`; how far the store has copied it; and its head cache.

    `pointer`: the last copied offset, -1 before the first. `lag`: records that are not copied. `hits` to `behind`: how lookups ended.
    `duplicates`: events that gave way to another one of the same number, in reads of this process. `problem`: why the replicator of this
    data directory does not go on; empty: it does, or nothing was told of it here.
    """

    partition: Count
    start: Count
    end: Count
    pointer: int
    lag: Count
    updated: str | int | None = None
    cached: Count = 0
    hits: Count = 0
    misses: Count = 0
    ahead: Count = 0
    limited: Count = 0
    behind: Count = 0
    duplicates: Count = 0
    problem: str = ""


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of journals and its partitions. `cipher`: encrypts the payloads of its events; None: they are clear.

    `engine`: that ran the last round of the replicator of this data directory; None: no round was told of here."""

    topic: str
    writers: Writers
    generation: str
    store: str
    engine: str | None = None
    lag: Count
    partitions: list[JournalPartitionStatus]
    cipher: str | None = None


class ShownPointer(msgspec.Struct, frozen=True, kw_only=True):
    """How far a partition is copied: `offset` is the last record that the store holds, -1 before the first."""

    partition: Count
    offset: int
    end: Count
    lag: Count
    created: str | int | None = None
    updated: str | int | None = None


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of journals, sorted by their UTF-8 bytes; or, as `view` asks, the status or the pointers of the topic."""

    items: list[str] = []
    next: str | None = None
    status: TopicStatus | None = None
    pointers: list[ShownPointer] | None = None


class ShownHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a journal. `seq_nr`: its last number. `delete_to`: events up to it are deleted; 0: none is."""

    id: str
    seq_nr: Count
    delete_to: Count
    partition: Count
    offset: Count
    created: str | int | None
    updated: str | int | None
    expire_after: str | None = None
    expire_on: str | None = None
    record_id: str | None = None
    origin: str | None = None


class ShownJournalEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event. `payload`: JSON as it was given, text, or {"$binary": base64}, as `payload_type` says; null without a type: it has none."""

    seq_nr: SeqNr
    payload: Any
    payload_type: str | None
    tags: list[str]
    timestamp: str | int | None
    partition: Count
    offset: Count
    origin: str | None = None
    version: str | None = None
    metadata: Any = None
    header_metadata: Any = None
    headers: dict[str, str] = {}


class ShownFollowedEvent(ShownJournalEvent, frozen=True, kw_only=True):
    """An event of a topic. `position`: where to go on behind it."""

    id: str
    position: str


class EventsPage(msgspec.Struct, frozen=True):
    """Events of a journal. `next`: the number to go on from."""

    items: list[ShownJournalEvent]
    next: str | None = None


class JournalChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What was written. `done`: false where there is no such journal, and nothing was written. `to`: the last number that is deleted."""

    done: bool
    partition: Count | None = None
    offset: Count | None = None
    to: Count | None = None


class TrailRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a journal that the log still keeps. `copied`: the store holds it."""

    partition: Count
    offset: Count
    timestamp: str | int | None
    action: str
    copied: bool
    first: Count | None = None
    last: Count | None = None
    to: Count | None = None
    mark: str | None = None
    origin: str | None = None
    version: str | None = None
    problem: str = ""


class ShownSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot. `seq_nr`: the event up to which it holds. `record_id`: of the journal's life. `payload`: null in a list; JSON as it was
    given, text, or {"$binary": base64}, as `payload_type` says."""

    seq_nr: SeqNr
    timestamp: str | int | None
    payload_type: str
    offset: Count
    origin: str | None = None
    version: str | None = None
    record_id: str | None = None
    payload: Any = None


class SnapshotsFound(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots of a journal, the newest first."""

    items: list[ShownSnapshot]


class SavedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Where a snapshot lies in the topic of snapshots."""

    seq_nr: SeqNr
    partition: Count
    offset: Count


class DeletedSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """How many snapshots are deleted. 0: none was there, and nothing was written."""

    deleted: Count
    dry_run: bool = False


class JournalTrail(msgspec.Struct, frozen=True, kw_only=True):
    """A journal on its way: the newest records that the log keeps, the head in the store, and the head that readers see.

    `lag`: records of the partition that are not copied. `rows`: events in the store, from the stored head's life. `snapshots`: as readers
    find them, without payloads. A journal whose topic grew has several partitions: `partition`, `end` and `pointer` are of the newest one,
    and the rest is of all of them, older records first.
    """

    id: str
    topic: str
    partition: Count
    end: Count
    pointer: int
    lag: Count
    stored: ShownHead | None
    head: ShownHead | None
    rows: Count
    records: list[TrailRecord]
    snapshots: list[ShownSnapshot] = []
