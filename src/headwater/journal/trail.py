"""The trail of a journal: its newest records in the log, its head in the store, and the head that readers see."""

from __future__ import annotations

from collections import deque

from headwater.journal.answers import JournalTrail, TrailRecord
from headwater.journal.names import key_of
from headwater.journal.partition import JournalPartition
from headwater.journal.shown import show_head, show_trail_record
from headwater.log.search import records_with_key

_SEARCHED = 1_000_000  # records of the log's end that are searched


def trail(partition: JournalPartition, id: str, limit: int) -> JournalTrail:
    """Errors: those of reads."""
    bounds = partition.bounds()
    name, number, key = partition.topic.name, partition.number, key_of(id)
    rows = 0
    with partition.view() as view:
        pointer = -1 if view is None else view.pointer.offset
        stored = None if view is None else view.head(id)
        if view is not None and stored is not None:
            rows = sum(len(page) for page in view.rows(id, stored, stored.deleted + 1))
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
    )
