"""The read of a journal: the store's rows, then the events of the log's tail, page by page.

A page takes one view of the store and closes it, so that a slow reader holds nothing open. All pages show the journal as of the offset at
which the read began: what the store has copied meanwhile is the same as what the log says. Events that are deleted meanwhile are missing
from later pages; a journal that is purged meanwhile ends the read with `Conflict`, never early without a word.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain, islice, pairwise

from headwater.core.errors import Conflict, Erased, OffsetGone, Unavailable
from headwater.journal.actions import AppendPlace
from headwater.journal.append_rows import rows_of
from headwater.journal.change import EventRow
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.head import Head, read_range, with_rows_up_to
from headwater.journal.merge import distinct, each_once, merged
from headwater.journal.partition import AGAIN, Joined, JournalPartition
from headwater.journal.store import PartitionView
from headwater.journal.view_block import LOG_ALONE

PAGE = 1000
_FETCHED = 100  # records of the tail that are read at once


OpenRows = Callable[[str, list[EventRow]], list[EventRow]]
"""Decrypts events of a journal, given by its id."""


class _PurgedMeanwhile(Exception):
    """The journal is not the one that the read began with."""


class _Scattered(Exception):
    """An Append holds events outside of the range that its header names."""


class JournalRead:
    """One read. Blocking; one caller at a time. `end`: the offset below which records count; None: the store alone."""

    def __init__(
        self,
        partition: JournalPartition,
        id: str,
        *,
        start: int = 1,
        stop: int | None = None,
        end: int | None,
        opens: OpenRows | None = None,
    ) -> None:
        """`opens`: decrypts the events of a journal; None: they come as they are kept."""
        self._partition, self._id, self._end, self._opens = partition, id, end, opens
        self._next, self._stop = start, stop
        self._last = 0  # the number that this page ends with at most: no event lies above the head's, whatever an Append holds
        self._life: uuid.UUID | None = None
        self._begun = self._over = False  # `over`: there is no further page
        self._scattered = False  # Appends of the tail hold numbers in any order: only a merge of all of them is sorted
        self._tail: Iterator[EventRow] | None = None  # once only events of the log are left

    @property
    def over(self) -> bool:
        """Whether there is certainly no further page."""
        return self._over

    def page(self, most: int = PAGE) -> list[EventRow]:
        """The next events, up to `most`; none at the end. Errors: those of reads, and of `opens`."""
        rows = self._page(most)
        try:
            return rows if self._opens is None else self._opens(self._id, rows)
        except Erased:
            head = self._partition.joined(self._id, self._partition.end()).head
            if head is not None and head.record_id == self._life:
                raise
            raise self._purged() from None

    def _purged(self) -> Conflict:
        return Conflict(
            f"Journal {self._id!r:.60} was purged while it was read, behind event {self._next - 1}.", hint="Read it again from the start."
        )

    def _page(self, most: int) -> list[EventRow]:
        for attempt in range(AGAIN):
            if self._over:
                return []
            try:
                rows = list(islice(self._tail, most)) if self._tail is not None else self._from_both(most)
            except _Scattered:
                self._tail, self._scattered = None, True
                continue
            except (OffsetGone, Conflict):  # the log was deleted up to a newer pointer than the view's, or the store has changed the view
                self._tail = None
                if attempt == AGAIN - 1:
                    raise
                continue
            except _PurgedMeanwhile:
                raise self._purged() from None
            if rows:
                self._next = rows[-1].seq_nr + 1
                self._over = len(rows) < most or rows[-1].seq_nr == MAX_SEQ_NR
                return rows
            if self._tail is not None:
                self._over = True
                return []
        return []

    def _from_both(self, most: int) -> list[EventRow]:
        partition, log_instead = self._partition, self._end is not None
        block: AbstractContextManager[PartitionView | None] | None = None
        try:
            block = partition.view(log_instead=log_instead)
            return self._of_view(block, most)
        except Unavailable as error:
            if not log_instead or block is LOG_ALONE or not partition.stands_in(error):
                raise
        return self._of_view(partition.view(log_instead=True), most)

    def _of_view(self, block: AbstractContextManager[PartitionView | None], most: int) -> list[EventRow]:
        partition = self._partition
        with block as view:
            joined = partition.join(view, self._id, self._end)
            head = joined.head
            if not self._same_life(joined):
                return []
            assert head is not None
            self._next, self._last = read_range(head, self._next, self._stop)
            if self._next > self._last:
                self._over = True
                return []
            if head is joined.stored and view is not None:  # the log says nothing about it behind the pointer
                return self._stored(view, head, [], in_order=True, most=most)
            appends = self._appends(joined)
            stored = None if joined.fold.purged >= 0 else joined.stored
            seq_nr = head.seq_nr if stored is None else min(stored.seq_nr, head.seq_nr)
            stored = None if stored is None else with_rows_up_to(stored, head)
            ascending = not self._scattered and _ascending(appends)
            behind = stored is None or view is None or (self._next > seq_nr and not self._rows_left(view, stored))
            if behind and ascending:
                self._tail = self._distinct(self._events(appends))
                return list(islice(self._tail, most))
            if stored is None or view is None:
                rows = self._distinct(merged((), self._runs(appends)))
                return self._ended(list(islice(rows, most)))
            in_order = not appends or (ascending and appends[0].first > seq_nr)
            return self._stored(view, stored, appends, in_order=in_order, most=most)

    def _rows_left(self, view: PartitionView, stored: Head) -> bool:
        """Whether the store has rows above its head's number: other writers may give an Append's events in any order."""
        return next(view.rows(self._id, stored, self._next, self._last, batch=1), None) is not None

    def _stored(self, view: PartitionView, stored: Head, appends: list[AppendPlace], *, in_order: bool, most: int) -> list[EventRow]:
        pages = view.rows(self._id, stored, self._next, self._last, batch=most)
        events: list[EventRow] = []
        while len(events) < most and in_order:
            rows = next(pages, None)
            if rows is None:
                break
            events = events + rows if events else rows
        if in_order and events and appends:
            in_order = events[-1].seq_nr < appends[0].first  # rows above the head's number: kafka-journal's heads may go back
        plain = each_once(events) and self._partition.settings.duplicates == "first"
        if not in_order or not plain:
            rest = merged(chain((events,), pages), self._runs(appends))
            return self._ended(list(islice(self._distinct(rest), most)))
        if len(events) < most and appends:
            self._tail = self._distinct(self._events(appends))
            events = [*events, *islice(self._tail, most - len(events))]
        return self._ended(events)

    def _ended(self, rows: list[EventRow]) -> list[EventRow]:
        self._over = self._over or not rows
        return rows

    def _same_life(self, joined: Joined) -> bool:
        """Whether there is something to read. Errors: `_PurgedMeanwhile` where the journal is not the one that the read began with."""
        head = joined.head
        life = None if head is None else head.record_id
        if self._begun and life != self._life and self._life is not None:
            raise _PurgedMeanwhile
        self._begun, self._life = True, life
        self._over = head is None
        return head is not None

    def _appends(self, joined: Joined) -> list[AppendPlace]:
        """The Appends of the tail that hold events to read."""
        if joined.fold.first is None:
            return []
        if self._scattered:
            return list(joined.actions.appends(joined.fold.first.offset))
        start, stop = self._next, self._last
        return [place for place in joined.actions.appends(joined.fold.first.offset) if place.last >= start and place.first <= stop]

    def _distinct(self, rows: Iterator[EventRow]) -> Iterator[EventRow]:
        partition = self._partition
        return distinct(rows, partition.settings.duplicates, partition.duplicates, self._id)

    def _runs(self, appends: list[AppendPlace]) -> list[Iterator[EventRow]]:
        """Streams of events, each of them ascending."""
        runs: list[list[AppendPlace]] = []
        for place in appends:
            run = None if self._scattered else next((run for run in runs if run[-1].last < place.first), None)
            if run is None:
                runs.append([place])
            else:
                run.append(place)
        return [self._events(run) for run in runs]

    def _events(self, appends: list[AppendPlace]) -> Iterator[EventRow]:
        """The events of these Appends that are asked for, in their order."""
        start, stop, partition = self._next, self._last, self._partition
        for at in range(0, len(appends), _FETCHED):
            places = appends[at : at + _FETCHED]
            for place, append in zip(places, partition.appends([place.offset for place in places]), strict=True):
                rows = rows_of(append, partition.number)
                if rows and not self._scattered and (rows[0].seq_nr < place.first or rows[-1].seq_nr > place.last):
                    raise _Scattered
                for row in rows:
                    if start <= row.seq_nr <= stop:
                        yield row


def _ascending(appends: list[AppendPlace]) -> bool:
    return all(append.last < following.first for append, following in pairwise(appends))
