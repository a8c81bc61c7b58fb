"""The fold of a range of a partition of snapshots into what it changes in a store. Pure: it reads no log and writes no store."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from headwater.core.errors import UnreadableRecord
from headwater.journal.change import RangeChange
from headwater.journal.discovery import generation_of_journals
from headwater.journal.snapshot import SnapshotAction
from headwater.journal.snapshot_wire import read_snapshot
from headwater.log.layout import decode_headers
from headwater.log.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


class SnapshotsChanged(msgspec.Struct, frozen=True, gc=False):
    """What a range does to the snapshots of one journal, in the order of the log."""

    id: str
    actions: tuple[SnapshotAction, ...]


class SnapshotsChange(RangeChange, frozen=True, gc=False):
    """What a range of a topic of snapshots changes."""

    journals: tuple[SnapshotsChanged, ...] = ()
    timestamp: int = 0  # of the newest record, milliseconds
    epoch: int = 0  # snapshots need no claims: every record counts
    counts: tuple[int, ...] = ()  # of partitions that the topic of journals has had, older ones first, where it grew


class FoldedSnapshots(msgspec.Struct, frozen=True):
    """`change`: of all records before `poison`, the first one that cannot be decoded; None: all can."""

    change: SnapshotsChange
    poison: UnreadableRecord | None = None


def fold_snapshots(
    *,
    topic: str,
    partition: int,
    generation: str,
    start: int,
    end: int,
    records: Iterable[Record],
    skip: Container[int] = (),
) -> FoldedSnapshots:
    """What the records of [start, end), in their order, change. `generation`: as `snapshot_generation` makes it. `skip`: offsets of
    quarantined records. Where a record is poison, the change ends at its offset."""
    actions_by_id: dict[str, list[SnapshotAction]] = {}
    newest, poison = 0, None
    journals = generation_of_journals(generation)
    for record in records:
        if record.offset in skip:
            continue
        try:
            read = read_snapshot(record, journals)
        except UnreadableRecord as error:
            poison = error
            break
        newest = record.timestamp or newest
        if read is not None:
            actions_by_id.setdefault(read[0], []).append(read[1])
    change = SnapshotsChange(
        topic=topic,
        partition=partition,
        generation=generation,
        start=start,
        end=end if poison is None else poison.offset,
        journals=tuple(SnapshotsChanged(id, tuple(actions)) for id, actions in actions_by_id.items()),
        timestamp=newest,
    )
    return FoldedSnapshots(change, poison)


def records_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    """The records of what `Log.scan` yields."""
    for batch in batches:
        for offset, timestamp, key, value, block in zip(*[batch.column(name).to_pylist() for name in _COLUMNS], strict=True):
            yield Record(key, value, () if block is None else tuple(decode_headers(block)), timestamp, offset=offset)
