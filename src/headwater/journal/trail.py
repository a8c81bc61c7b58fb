"""The trail of a journal: its newest records in the log, its head in the store, and the head that readers see."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

from headwater.journal.answers import JournalTrail, TrailRecord
from headwater.journal.grown import GrownJournal
from headwater.journal.grown_snapshots import GrownSnapshots
from headwater.journal.head import Head
from headwater.journal.names import key_of
from headwater.journal.partition import JournalPartition
from headwater.journal.shown import show_head, show_trail_record
from headwater.journal.snapshot import SnapshotCriteria
from headwater.journal.snapshot_partition import SnapshotPartition
from headwater.journal.snapshot_shown import show_snapshot
from headwater.journal.store import PartitionView
from headwater.log.record import Bounds
from headwater.log.search import records_with_key

_SEARCHED = 1_000_000  # records of the log's end that are searched


def trail(partitions: Sequence[JournalPartition], snapshots: SnapshotPartition | GrownSnapshots, id: str, limit: int) -> JournalTrail:
    """`partitions`: the places of the journal, older ones first (`headwater.journal.grown`). Errors: those of reads."""
    newest, grown = partitions[-1], GrownJournal(partitions, id) if len(partitions) > 1 else None
    records: deque[TrailRecord] = deque(maxlen=limit)
    lag = rows = 0
    for partition in partitions:
        bounds = partition.bounds()
        pointer, stored, copied = partition.viewed(partial(_copied, id))
        records.extend(_records(partition, key_of(id), pointer, bounds))
        lag, rows = lag + max(0, bounds.end - pointer - 1), rows + copied
    if grown is None:
        head = newest.full_head(id, bounds.end)
    else:
        stored, head = grown.head(None), grown.head(bounds.end)
    return JournalTrail(
        id=id,
        topic=newest.topic.name,
        partition=newest.number,
        end=bounds.end,
        pointer=pointer,
        lag=lag,
        stored=None if stored is None else show_head(id, stored),
        head=None if head is None else show_head(id, head),
        rows=rows,
        records=list(records),
        snapshots=[show_snapshot(snapshot) for snapshot in snapshots.find(id, SnapshotCriteria())],
    )


def _records(partition: JournalPartition, key: bytes, pointer: int, bounds: Bounds) -> Iterator[TrailRecord]:
    """The records of a journal among the newest ones of a partition."""
    at = max(bounds.start, bounds.end - _SEARCHED)
    while at < bounds.end:
        records, at = records_with_key(partition.log, partition.topic.name, partition.number, at, bounds.end, key, limit=1000)
        for record in records:
            if (shown := show_trail_record(record, pointer, partition.number)) is not None:
                yield shown


def _copied(id: str, view: PartitionView | None) -> tuple[int, Head | None, int]:
    """The pointer, the stored head and how many rows it has."""
    if view is None:
        return -1, None, 0
    head = view.head(id)
    return view.pointer.offset, head, 0 if head is None else sum(len(page) for page in view.rows(id, head, head.deleted + 1))
