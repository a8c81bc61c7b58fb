"""The ids of a partition's journals: those of the store, and those that only the log knows yet."""

from __future__ import annotations

from functools import partial

from headwater.core.errors import UnreadableRecord
from headwater.journal.actions import TailActions
from headwater.journal.partition import NOTHING_COPIED, JournalPartition
from headwater.journal.store import PartitionView
from headwater.journal.wire import read_id


def journal_ids(partition: JournalPartition, after: str | None, limit: int) -> list[str]:
    """Ids sorted by their UTF-8 bytes, those behind `after`, up to `limit`. Purged journals are left out; one with a record that cannot be
    decoded is listed."""
    end = partition.end()
    ids: list[str] = []
    while len(ids) < limit:
        names, living = partition.viewed(partial(_page, partition, after, limit, end))
        ids += living
        if len(names) < limit:
            break
        after = names[-1].decode()
    return ids[:limit]


def _page(
    partition: JournalPartition, after: str | None, limit: int, end: int, view: PartitionView | None
) -> tuple[list[bytes], list[str]]:
    """The next keys, up to `limit`, and which of them are journals now."""
    stored = set() if view is None else {id.encode() for id in view.ids(after, limit)}
    pointer = NOTHING_COPIED if view is None else view.pointer
    end = max(end, pointer.begun)
    tail = sorted(_tail_ids(partition, pointer.offset + 1, end, after))[:limit]
    names = sorted({*stored, *tail})[:limit]
    # One scan for all of them: one for each would take minutes where the copy is far behind.
    scanned = partition.scan_actions(set(tail).intersection(names), pointer.offset + 1, end, pointer.epoch)
    left_out = partition.quarantined.offsets(now=any(tail_actions.unreadable() is not None for tail_actions in scanned.values()))
    actions = {name: tail_actions.without(left_out) for name, tail_actions in scanned.items()}
    return names, [name.decode() for name in names if _lives(actions.get(name), stored=name in stored)]


def _lives(actions: TailActions | None, *, stored: bool) -> bool:
    """Whether there is a journal, by what the log says behind the store."""
    if actions is None:
        return stored
    fold = actions.fold()
    return fold.first is not None or (stored and fold.purged < 0) or actions.unreadable() is not None


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
