"""The ids of a partition's journals: those of the store, and those that only the log knows yet."""

from __future__ import annotations

from functools import partial

from headwater.core.errors import UnreadableRecord
from headwater.journal.partition import JournalPartition
from headwater.journal.store import PartitionView
from headwater.journal.wire import read_id


def journal_ids(partition: JournalPartition, after: str | None, limit: int) -> list[str]:
    """Ids sorted by their UTF-8 bytes, those behind `after`, up to `limit`. Purged journals are left out."""
    end = partition.end()
    found: list[str] = []
    while len(found) < limit:
        stored, pointer = partition.viewed(partial(_stored, after, limit))
        tail = sorted(_tail_ids(partition, pointer + 1, end, after))[:limit]
        names = sorted({*(id.encode() for id in stored), *tail})[:limit]
        if not names:
            break
        fresh = set(tail)
        for name in names:
            id = name.decode()
            if name not in fresh or partition.joined(id, end).head is not None:
                found.append(id)
        after = names[-1].decode()
        if len(names) < limit:
            break
    return found[:limit]


def _stored(after: str | None, limit: int, view: PartitionView | None) -> tuple[list[str], int]:
    return ([], -1) if view is None else (view.ids(after, limit), view.pointer.offset)


def _tail_ids(partition: JournalPartition, start: int, end: int, after: str | None) -> set[bytes]:
    """The keys of the records of [start, end) that are ids behind `after`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if start >= end:
        return set()
    keys: set[bytes] = set()
    for batch in partition.log.scan(partition.topic.name, partition.number, start, end):
        keys.update(pc.unique(batch.column("key").cast(pa.binary())).drop_null().to_pylist())
    behind = None if after is None else after.encode()
    return {key for key in keys if (behind is None or key > behind) and _is_id(key)}


def _is_id(key: bytes) -> bool:
    try:
        return bool(read_id(key))
    except UnreadableRecord:
        return False
