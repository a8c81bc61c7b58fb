"""Journals of a Kafka topic that grew. Their older records lie where the older number of partitions put them, so such a journal has several
places: it is what the records of the older place say, and then those of the newer one, whichever of them are copied.

The copy of a newer place keeps, for each journal that has an older one, the whole `HeadFold` of its records: a Purge or a Delete there
also concerns events in the older place. Heads alone would not tell.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from headwater.journal.change import EventRow
from headwater.journal.head import EMPTY, Expiry, FirstAppend, Head, HeadFold, applied
from headwater.journal.merge import distinct
from headwater.journal.partition import JournalPartition
from headwater.journal.places import places_of
from headwater.journal.read import JournalRead, OpenRows
from headwater.journal.store import PartitionView


class GrownHead(NamedTuple):
    """The head of a journal with several places. `first`: the first place that counts, as a Purge ends what lies in those before it. `end`:
    the offset of the newest place below which records count in it."""

    head: Head | None
    first: int
    end: int


class GrownJournal:
    """One journal with several places, older ones first. Blocking. Errors: those of `JournalPartition`."""

    def __init__(self, partitions: Sequence[JournalPartition], id: str) -> None:
        self._partitions, self._id = partitions, id

    @property
    def newest(self) -> JournalPartition:
        """The place where its records are appended now."""
        return self._partitions[-1]

    def head(self, end: int | None, *, full: bool = False) -> Head | None:
        """The head. `end`: the offset of the newest place below which records count; None: what the stores alone say. `full`: with its
        expiry and origin, which are read from the records."""
        return self.joined(end, full=full).head

    def joined(self, end: int | None, *, full: bool = False) -> GrownHead:
        """As `head`, with what counts in it."""
        head: Head | None = None
        first = 0
        known = end or 0
        for place, partition in enumerate(self._partitions):
            newest = place == len(self._partitions) - 1
            until = None if end is None else end if newest else partition.end()
            if not place:
                head = partition.full_head(self._id, until) if full else partition.joined(self._id, until).head
                continue
            fold, known = partition.viewed(
                lambda view, partition=partition, until=until: self._fold(view, partition, until, full),  # type: ignore[misc]
                log_instead=until is not None,
            )
            if fold.purged >= 0:
                first = place
            head = applied(
                fold,
                head,
                partition=partition.number,
                generation=partition.topic.generation,
                segment_size=partition.settings.segment_size,
            )
        return GrownHead(head, first, known)

    def _fold(self, view: PartitionView | None, partition: JournalPartition, end: int | None, full: bool) -> tuple[HeadFold, int]:
        """What all records of a newer place say, and the offset below which they count."""
        joined = partition.join(view, self._id, end)
        copied = EMPTY if view is None else view.moved(self._id)
        if copied.offset < 0 and joined.stored is not None:
            copied = _fold_of(joined.stored)  # copied before the growth was noticed
        fold = partition.full_fold(joined) if full else joined.fold
        return copied.then(fold), max(end or 0, joined.pointer.offset + 1, joined.pointer.begun)

    def last_number(self, end: int) -> int:
        """The last number below an offset of the newest place; 0: there is no such journal."""
        head = self.head(end)
        return 0 if head is None else head.last

    def read(self, *, start: int = 1, stop: int | None = None, end: int | None, opens: OpenRows | None = None) -> GrownRead:
        """Its events, those of the older place first. `opens`: as of `JournalRead`."""
        return GrownRead(self.rows(start, stop, end), self._id, opens)

    def rows(self, start: int, stop: int | None, end: int | None) -> Iterator[EventRow]:
        """The events by number, one for each number."""
        head, first, _ = self.joined(end)
        if head is None:
            return
        start = max(start, head.deleted + 1)
        counted = list(enumerate(self._partitions))[first:]
        newest = self._partitions[-1]
        each = [
            _placed(
                place,
                JournalRead(
                    partition,
                    self._id,
                    start=start,
                    stop=stop,
                    end=None if end is None else end if partition is newest else partition.end(),
                ),
            )
            for place, partition in counted
        ]
        rows = (row for _, _, row in heapq.merge(*each, key=lambda placed: placed[:2]))
        yield from distinct(rows, newest.settings.duplicates, newest.duplicates, self._id)


class GrownRead:
    """As `JournalRead`, of a journal with several places."""

    def __init__(self, rows: Iterator[EventRow], id: str, opens: OpenRows | None) -> None:
        self._rows, self._id, self._opens = rows, id, opens
        self.over = False

    def page(self, most: int = 1000) -> list[EventRow]:
        """The next events, up to `most`; none at the end. Errors: `Conflict` for a journal that was purged meanwhile."""
        rows = list(islice(self._rows, most))
        self.over = len(rows) < most
        return rows if self._opens is None else self._opens(self._id, rows)


def journals_of(id: str, counts: Sequence[int], partition: Callable[[int], JournalPartition]) -> GrownJournal | None:
    """The journal over all of its places; None where it has one alone."""
    places = places_of(id.encode(), counts)
    return GrownJournal([partition(place) for place in places], id) if len(places) > 1 else None


def _placed(place: int, read: JournalRead) -> Iterator[tuple[int, int, EventRow]]:
    while rows := read.page():
        for row in rows:
            yield row.seq_nr, place, row


def _fold_of(head: Head) -> HeadFold:
    """What a stored head says, as far as it does."""
    begins = FirstAppend(head.offset, head.deleted + 1, head.created, head.origin)
    return HeadFold(
        first=begins, seq_nr=head.seq_nr, offset=head.offset, timestamp=head.updated, expiry=Expiry(head.expire_after, head.updated)
    )
