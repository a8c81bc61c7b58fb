"""How far a store is behind the log: computed from its pointers and the log's bounds, so that any process may ask, also while none
replicates."""

from __future__ import annotations

import msgspec

from headwater.core.errors import OffsetGone
from headwater.journal.copies import open_copy
from headwater.journal.discovery import JournalTopic
from headwater.journal.store import JournalStore
from headwater.log import Log


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. `pointer`: the last record that the store holds, -1 before the first. `seconds`: the age of the oldest record that it
    lacks. `missing`: how many records it lacks that the log no longer has."""

    topic: str
    partition: int
    pointer: int
    start: int
    end: int
    records: int
    seconds: float
    missing: int = 0


def partition_lag(log: Log, store: JournalStore, topic: JournalTopic, partition: int, *, now: int) -> PartitionLag:
    """The lag of a partition. `now`: milliseconds since 1970. A copy of another generation of the topic counts as none."""
    copy = open_copy(store, topic, partition, create=False)
    copy_pointer = copy.pointer() if copy is not None else None
    pointer = copy_pointer.offset if copy_pointer is not None and copy_pointer.generation in ("", topic.generation) else -1
    bounds = log.bounds(topic.name, partition)
    first = max(pointer + 1, bounds.start)
    oldest = None
    if first < bounds.end:
        try:
            oldest = next(iter(log.read(topic.name, partition, first, limit=1)), None)
        except OffsetGone:  # deleted since: the next call tells
            oldest = None
    seconds = max(0, now - (oldest.timestamp or now)) / 1000 if oldest is not None else 0.0
    return PartitionLag(
        topic=topic.name,
        partition=partition,
        pointer=pointer,
        start=bounds.start,
        end=bounds.end,
        records=max(0, bounds.end - first),
        seconds=seconds,
        missing=max(0, bounds.start - pointer - 1),
    )


def topic_lag(log: Log, store: JournalStore, topic: JournalTopic, *, now: int) -> list[PartitionLag]:
    """The lag of every partition of a topic."""
    return [partition_lag(log, store, topic, number, now=now) for number in range(topic.partitions)]
