"""Actions on one journal of a store, call by call: the interface of a replicator that folds nothing.

    partition = PartitionActions(store.partition("journal-bank", 0, generation))
    partition.offsets.get()
    partition.key("alice").append(rows, offset=7, timestamp=now)

Every call is a change of its own, so it is slow; `PartitionStore.apply` takes a whole range. Both leave the same store.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import BadInput
from headwater.journal.action import ActionRecord, Append, Delete, Purge
from headwater.journal.change import EventRow, JournalChange, PartitionChange
from headwater.journal.head import HeadFold, fold_of
from headwater.journal.store import PartitionStore


class PartitionActions:
    """A partition's copy by single actions. Actions come in the order of the log: one at or below the pointer is applied already."""

    def __init__(self, store: PartitionStore) -> None:
        self.store = store
        self.offsets = CopiedOffsets(self)

    def key(self, id: str) -> KeyActions:
        """The actions on one journal."""
        return KeyActions(self, id)

    def apply(self, journals: tuple[JournalChange, ...], offset: int, timestamp: int) -> bool:
        """Apply one record's change, and move the pointer to its offset. False where the pointer is there already."""
        store, pointer = self.store, self.store.pointer()
        if offset <= pointer.offset:
            return False
        return store.apply(
            PartitionChange(
                topic=store.topic,
                partition=store.partition,
                generation=store.generation,
                start=pointer.offset + 1,
                end=offset + 1,
                journals=journals,
                timestamp=timestamp,
                epoch=pointer.epoch,
            )
        )


class CopiedOffsets:
    """How far the partition is copied."""

    def __init__(self, partition: PartitionActions) -> None:
        self._partition = partition

    def get(self) -> int | None:
        """The offset of the last record that is copied; None: none is."""
        offset = self._partition.store.pointer().offset
        return None if offset < 0 else offset

    def set(self, offset: int, *, timestamp: int = 0) -> bool:
        """Count everything up to `offset` as copied: Marks, and records that are no actions. False where it is already; it never goes
        back."""
        return self._partition.apply((), offset, timestamp)


class KeyActions:
    """The actions on one journal. Each returns whether the journal is another afterwards; each moves the partition's pointer."""

    def __init__(self, partition: PartitionActions, id: str) -> None:
        self._partition, self._id = partition, id

    def append(self, rows: Sequence[EventRow], *, offset: int, timestamp: int, expire_after: int | None = None) -> bool:
        """Add events. Errors: `BadInput` where there are none."""
        if not rows:
            raise BadInput("An Append without events changes nothing.", hint="Give one event or more.")
        action = Append(rows[0].seq_nr, rows[-1].seq_nr, origin=rows[0].origin)
        return self._applied(fold_of(ActionRecord(self._id, action, offset, timestamp), expire_after), tuple(rows), offset, timestamp)

    def delete(self, to: int, *, offset: int, timestamp: int) -> bool:
        """Remove the events up to `to`."""
        return self._applied(fold_of(ActionRecord(self._id, Delete(to), offset, timestamp)), (), offset, timestamp)

    def purge(self, *, offset: int, timestamp: int) -> bool:
        """Remove the journal."""
        return self._applied(fold_of(ActionRecord(self._id, Purge(), offset, timestamp)), (), offset, timestamp)

    def _applied(self, fold: HeadFold, rows: tuple[EventRow, ...], offset: int, timestamp: int) -> bool:
        with self._partition.store.view() as view:
            before = view.head(self._id)
        if not self._partition.apply((JournalChange(self._id, fold, rows),), offset, timestamp):
            return False
        with self._partition.store.view() as view:
            return view.head(self._id) != before
