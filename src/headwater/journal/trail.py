"""The trail of a journal: its newest records in the log, its head in the store, and the head that readers see."""

from __future__ import annotations

from collections import deque
from functools import partial

from headwater.journal.answers import JournalTrail, TrailRecord
from headwater.journal.head import Head
from headwater.journal.names import key_of
from headwater.journal.partition import JournalPartition
from headwater.journal.shown import show_head, show_trail_record
from headwater.journal.snapshot import SnapshotCriteria
from headwater.journal.snapshot_partition import SnapshotPartition
from headwater.journal.snapshot_shown import show_snapshot
from headwater.journal.store import PartitionView
from headwater.log.search import records_with_key

_SEARCHED = 1_000_000  # records of the log's end that are searched


def trail(partition: JournalPartition, snapshots: SnapshotPartition, id: str, limit: int) -> JournalTrail:
    """Errors: those of reads."""
    bounds = partition.bounds()
    name, number, key = partition.topic.name, partition.number, key_of(id)
    pointer, stored, rows = partition.viewed(partial(_copied, id))
    newest: deque[TrailRecord] = deque(maxlen=limit)
    at = max(bounds.start, bounds.end - _SEARCHED)
    while at < bounds.end:
        records, at = records_with_key(partition.log, name, number, at, bounds.end, key, limit=1000)
        newest.extend(shown for record in records if (shown := show_trail_record(record, pointer)) is not None)
    head = partition.full_head(id, bounds.end)
    return JournalTrail(
        id=id,
        topic=name,
        partition=number,
        end=bounds.end,
        pointer=pointer,
        lag=max(0, bounds.end - pointer - 1),
        stored=None if stored is None else show_head(id, stored),
        head=None if head is None else show_head(id, head),
        rows=rows,
        records=list(newest),
        snapshots=[show_snapshot(one) for one in snapshots.find(id, SnapshotCriteria())],
    )


def _copied(id: str, view: PartitionView | None) -> tuple[int, Head | None, int]:
    """The pointer, the stored head and how many rows it has."""
    if view is None:
        return -1, None, 0
    head = view.head(id)
    return view.pointer.offset, head, 0 if head is None else sum(len(page) for page in view.rows(id, head, head.deleted + 1))
