"""What a change does to each journal of a store: its new head, the rows that come and the rows that go. Pure, the same for every store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from headwater.core.errors import Conflict, Differs
from headwater.journal.change import EventRow, PartitionChange, Pointer, RangeChange
from headwater.journal.head import Head, applied
from headwater.journal.tally import CopyTally


class JournalUpdate(msgspec.Struct, frozen=True, gc=False):
    """What a change does to one journal.

    `stored` and `head`: its head before and after; None: there is no such journal. `rows`: those to insert, of the life that `head` is
    of, all above its `delete_to`. `delete_to`: stored rows up to it go, 0: none do. `purges`: the stored life ends, and all its rows go.
    """

    id: str
    stored: Head | None
    head: Head | None
    rows: tuple[EventRow, ...]
    delete_to: int = 0
    purges: bool = False

    @property
    def changed(self) -> bool:
        """Whether the store holds something else afterwards."""
        return self.head is not self.stored or bool(self.rows)


def journal_updates(
    change: PartitionChange, heads: Mapping[str, Head], *, segment_size: int, tally: CopyTally | None = None
) -> Iterator[JournalUpdate]:
    """One update for each journal of the change. `heads`: those stored at the change's start. `segment_size`: of new journals. `tally`:
    counts the Appends that do not follow the stored ones."""
    partition, generation = change.partition, change.generation
    for journal in change.journals:
        stored, fold = heads.get(journal.id), journal.fold
        if tally is not None and stored is not None and fold.first is not None and fold.purged < 0:
            tally.count(fold.first.seq_nr, stored.last)
        head = applied(fold, stored, partition=partition, generation=generation, segment_size=segment_size)
        if head is None:
            yield JournalUpdate(journal.id, stored, None, (), 0, stored is not None)
            continue
        purges = stored is not None and fold.purged >= 0
        deleted, rows = head.delete_to or 0, journal.rows
        if deleted:
            rows = tuple([row for row in rows if row.seq_nr > deleted])
        delete_to = 0 if purges or stored is None or deleted == (stored.delete_to or 0) else deleted
        yield JournalUpdate(journal.id, stored, head, rows, delete_to, purges)


def due(change: RangeChange, pointer: Pointer) -> bool:
    """Whether a change is to be applied to a store with this pointer; False: it is applied already.

    Errors: `Differs` for a change of another generation, `Conflict` for one that leaves a gap or that is applied in part.
    """
    check_generation(pointer, change.topic, change.partition, change.generation)
    if change.end - 1 <= pointer.offset:
        return False
    if change.start != pointer.offset + 1:
        raise Conflict(
            f"The records {change.start} to {change.end - 1} of {change.topic}/{change.partition} do not follow offset {pointer.offset}, "
            "up to which the store has them.",
            hint="Plan the range anew from the store's pointer.",
        )
    return True


def check_generation(pointer: Pointer, topic: str, partition: int, generation: str) -> None:
    """Errors: `Differs` where the store has copied another topic of this name. A store that knows no generation takes any."""
    if pointer.generation and pointer.generation != generation:
        raise Differs(
            f"The store has a copy of an earlier {topic}/{partition}, which was deleted and created again "
            f"(generation {pointer.generation}, now {generation}).",
            hint="Clear the copy; the replicator does so, and copies the topic anew.",
        )
