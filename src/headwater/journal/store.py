"""The stores of journals: copies of the log that readers ask first. Everything in them is folded from the log and can be made anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date
from itertools import chain, groupby
from types import TracebackType
from typing import Self

import msgspec

from headwater.journal.change import EventRow, PartitionChange, Pointer
from headwater.journal.event import EventRecord, Payload
from headwater.journal.head import EMPTY, Head, HeadFold
from headwater.journal.snapshot import Ring, Snapshot
from headwater.journal.snapshot_fold import SnapshotsChange
from headwater.journal.tally import CopyTally


class CopyTotals(msgspec.Struct, kw_only=True):
    """What a copy holds. `events`: rows. `payload_bytes`: of their payloads. `forks`: events of a number that an earlier event has.
    `gaps`: places between two events of a journal at which numbers are left out. `deleted`: numbers that Deletes have removed. `expired`:
    journals whose day has come."""

    journals: int = 0
    events: int = 0
    payload_bytes: int = 0
    forks: int = 0
    gaps: int = 0
    deleted: int = 0
    expired: int = 0


class ForkedNumber(msgspec.Struct, frozen=True):
    """A number of a journal that several events have, as two writers make it. `offsets`: of their records."""

    id: str
    seq_nr: int
    offsets: tuple[int, ...]


class PartitionView(ABC):
    """One partition's copy at one moment: pointer, heads and rows belong together.

    Errors of all calls: `Conflict` where the store has no transactions and changes have overtaken the view; open another one.
    """

    pointer: Pointer

    @abstractmethod
    def head(self, id: str) -> Head | None:
        """The head of a journal; None where the store has no such journal."""

    @abstractmethod
    def rows(self, id: str, head: Head, start: int, stop: int | None = None, *, batch: int = 1000) -> Iterator[list[EventRow]]:
        """The rows of `head`'s life from `start` to `stop` (both inclusive), above its `delete_to`, by number and then by offset, in
        batches. Rows of one number that several Appends have written all come. Gaps end nothing."""

    @abstractmethod
    def ids(self, after: str | None = None, limit: int = 1000) -> list[str]:
        """Ids of journals, sorted by their UTF-8 bytes, those behind `after`."""

    @abstractmethod
    def heads(self, after: str | None = None, limit: int = 1000) -> list[tuple[str, Head]]:
        """Journals with their heads, in the order of `ids`."""

    def moved(self, id: str) -> HeadFold:
        """What all copied records of this partition say of a journal that has an older place in another one (`headwater.journal.grown`)."""
        return EMPTY

    def all_moved(self) -> list[tuple[str, HeadFold]]:
        """Journals with an older place, in the order of their ids, with what `moved` says of them."""
        return []

    def forks(self, limit: int = 1000) -> list[ForkedNumber]:
        """Numbers that several events have, by id and number, up to `limit`."""
        forks: list[ForkedNumber] = []
        after: str | None = None
        while len(forks) < limit and (page := self.heads(after)):
            for id, head in page:
                rows = chain.from_iterable(self.rows(id, head, 1))
                for number, group in groupby(rows, key=lambda row: row.seq_nr):
                    offsets = tuple(row.offset for row in group)
                    if len(offsets) > 1:
                        forks.append(ForkedNumber(id, number, offsets))
            after = page[-1][0]
        return forks[:limit]

    def totals(self, today: date) -> CopyTotals:
        """What the copy holds, counted. `today`: journals that expire on it or before have expired."""
        totals, after = CopyTotals(), None
        while page := self.heads(after):
            for id, head in page:
                totals.journals += 1
                totals.deleted += head.deleted
                totals.expired += head.expire_on is not None and head.expire_on <= today
                last = 0
                for row in chain.from_iterable(self.rows(id, head, 1)):
                    totals.events += 1
                    totals.payload_bytes += len(row.payload.data) if row.payload else 0
                    totals.forks += row.seq_nr == last
                    totals.gaps += last > 0 and row.seq_nr > last + 1
                    last = row.seq_nr
            after = page[-1][0]
        return totals


class CopyStore(ABC):
    """The copy of one partition, of journals or of snapshots. Blocking, safe for several threads. `generation`: of the topic whose records
    it holds."""

    topic: str
    partition: int
    generation: str

    @abstractmethod
    def pointer(self) -> Pointer:
        """How far it is copied. Offset -1 where nothing is."""

    @abstractmethod
    def checkpoint(self) -> Pointer:
        """Make what is applied survive a loss of power, as far as the store can be told to; return the pointer up to which that holds,
        which may be an earlier one. Only then may the log go."""

    @abstractmethod
    def clear(self, offset: int = -1) -> None:
        """Remove everything, so that it can be made anew, from the record behind `offset` on."""


class PartitionStore(CopyStore):
    """One partition's copy of journals. Blocking, safe for several threads. `generation`: of the topic whose records it holds.

    Guarantees: `apply` changes rows, heads and pointer so that a reader sees all of a change or nothing of it, or (Cassandra) finds out
    and reads again. What is applied is the same for every split of the log into ranges, and after a death at any step.
    """

    @abstractmethod
    def view(self) -> AbstractContextManager[PartitionView]:
        """The copy at one moment. Errors: `Differs` where it holds records of another generation of the topic."""

    def short_read(self, id: str, start: int, stop: int, pointer: int, above: int = 0) -> list[EventRecord] | None:
        """The events of a journal from `start` to `stop`, of one moment with this pointer. None where the pointer is another one, where
        there are none or more than a few, and for all else that `view` is for. `above`: up to there they may be above the head's number.
        """
        return None

    @abstractmethod
    def apply(self, change: PartitionChange, tally: CopyTally | None = None) -> bool:
        """Apply the change of a range that begins right behind the pointer. False, and nothing is changed, where the pointer is at or
        behind its end already. `tally`: counts Appends that do not follow the stored ones.

        Errors: `Conflict` where the range begins behind the pointer + 1 or overlaps it in part: plan it anew."""

    @abstractmethod
    def restore(self, base: PartitionView) -> None:
        """Hold what another copy of this partition holds, instead of everything that is here: at once where the store has transactions;
        elsewhere a death leaves a copy that is to be restored again, and readers meet `LogGap` meanwhile."""


class RingView(ABC):
    """One partition's rings at one moment."""

    pointer: Pointer

    @abstractmethod
    def ring(self, id: str) -> Ring:
        """The snapshots of a journal, without their payloads. Its `applied` is at or behind the pointer."""

    @abstractmethod
    def payload(self, id: str, slot: int, snapshot: Snapshot) -> Payload:
        """The payload of a snapshot of the ring. Errors: `Conflict` where the store has no transactions and the slot has another by now."""

    @abstractmethod
    def ids(self, after: str | None = None, limit: int = 1000) -> list[str]:
        """Ids of journals with snapshots, sorted by their UTF-8 bytes, those behind `after`."""


class RingStore(CopyStore):
    """One partition's copy of snapshots: a ring for each journal, beside the journals' copy of the same partition.

    Guarantees: as of `PartitionStore`. Snapshots of a life that has ended go when the journals' copy learns of it, or do not come.
    """

    @abstractmethod
    def view(self) -> AbstractContextManager[RingView]:
        """The rings at one moment. Errors: `Differs` where they are of another generation."""

    @abstractmethod
    def apply(self, change: SnapshotsChange) -> bool:
        """As `PartitionStore.apply`."""

    @abstractmethod
    def restore(self, base: RingView, counts: Sequence[int] = ()) -> None:
        """As `PartitionStore.restore`. Snapshots whose life has ended, as far as the journals' copy knows, are left out. `counts`: as of
        `SnapshotsChange`."""


class JournalStore(ABC):
    """The copies of all partitions of all topics: SQLite files, or a keyspace of Cassandra."""

    @abstractmethod
    def topics(self) -> list[str]:
        """Topics of which something is copied, sorted."""

    @abstractmethod
    def partition(self, topic: str, partition: int, generation: str, *, create: bool = True) -> PartitionStore | None:
        """The copy of a partition. `create=False`: None where there is none, for those who only read."""

    @abstractmethod
    def snapshots(self, topic: str, partition: int, generation: str, *, create: bool = True) -> RingStore | None:
        """The copy of a partition of snapshots. `topic`: the topic of snapshots; `generation`: as `snapshot_generation` makes it."""

    @abstractmethod
    def setting(self, key: str) -> str | None:
        """A setting that all processes share; None: it is not set."""

    @abstractmethod
    def set_setting(self, key: str, value: str | None) -> str | None:
        """Set or (None) remove a setting; return what was there before."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def segment_of(seq_nr: int, segment_size: int) -> int:
    """The segment of an event in the table `journal`."""
    return (seq_nr - 1) // segment_size


def head_segment(id: str, count: int) -> int:
    """The segment of a journal's head in the table `metajournal` of Cassandra: Java's hash of the id in lower case, as kafka-journal's."""
    hashed = 0
    for unit in _utf16(id.lower()):
        hashed = (hashed * 31 + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return abs(signed) % count  # Java keeps the sign of the remainder, then takes it away


def _utf16(text: str) -> Sequence[int]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return [encoded[at] << 8 | encoded[at + 1] for at in range(0, len(encoded), 2)]
