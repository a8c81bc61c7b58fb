"""What the copies of journals and of snapshots have in common: how one is opened, and how records are folded for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from headwater.journal.discovery import JournalTopic
from headwater.journal.range_fold import FoldedRange, fold_batches, fold_range
from headwater.journal.snapshot_fold import FoldedSnapshots, fold_snapshots, records_of
from headwater.journal.store import CopyStore, JournalStore, PartitionStore, RingStore
from headwater.log.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

Folded = FoldedRange | FoldedSnapshots


def open_copy(store: JournalStore, topic: JournalTopic, partition: int, *, create: bool = True) -> CopyStore | None:
    """The copy of a partition. `create=False`: None where there is none."""
    if topic.holds == "snapshots":
        return store.snapshots(topic.name, partition, topic.generation, create=create)
    return store.partition(topic.name, partition, topic.generation, create=create)


def apply_to(copy: CopyStore, folded: Folded, counts: tuple[int, ...] = ()) -> bool:
    """Apply the change of a fold to a copy of its kind. `counts`: of partitions that the topic has had, where it grew."""
    if isinstance(folded, FoldedSnapshots):
        assert isinstance(copy, RingStore)
        return copy.apply(msgspec.structs.replace(folded.change, counts=counts) if len(counts) > 1 else folded.change)
    assert isinstance(copy, PartitionStore)
    change = msgspec.structs.replace(folded.change, counts=counts) if len(counts) > 1 else folded.change
    return copy.apply(change, folded.tally)


def fold_records(
    topic: JournalTopic,
    partition: int,
    start: int,
    end: int,
    records: Iterable[Record],
    *,
    epoch: int = 0,
    skip: Sequence[int] = (),
    claimed: bool = True,
) -> Folded:
    """What records of a partition change. As `fold_range`; those of snapshots count without claims."""
    place = {"topic": topic.name, "partition": partition, "generation": topic.generation, "start": start, "end": end}
    if topic.holds == "snapshots":
        return fold_snapshots(**place, records=records, skip=skip)  # type: ignore[arg-type]
    return fold_range(**place, records=records, epoch=epoch, skip=skip, claimed=claimed)  # type: ignore[arg-type]


def fold_scanned(
    topic: JournalTopic,
    partition: int,
    start: int,
    end: int,
    batches: Iterable[pa.RecordBatch],
    *,
    epoch: int = 0,
    skip: Sequence[int] = (),
    claimed: bool = True,
) -> Folded:
    """As `fold_records`, from what `Log.scan` yields."""
    place = {"topic": topic.name, "partition": partition, "generation": topic.generation, "start": start, "end": end}
    if topic.holds == "snapshots":
        return fold_snapshots(**place, records=records_of(batches), skip=skip)  # type: ignore[arg-type]
    return fold_batches(**place, batches=batches, epoch=epoch, skip=skip, claimed=claimed)  # type: ignore[arg-type]
