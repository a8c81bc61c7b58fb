"""The events of a partition in the order of the log, each with the place behind it: what followers and projections read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from headwater.core.errors import BadBounds, Conflict, Differs, HeadwaterError, OffsetGone, UnreadableRecord
from headwater.journal.append_rows import event_rows
from headwater.journal.change import EventRow
from headwater.journal.claims import epochs_from
from headwater.journal.names import key_of
from headwater.journal.partition import AGAIN
from headwater.journal.position import FollowPlace
from headwater.journal.replication_task import gap
from headwater.journal.store import PartitionStore, PartitionView
from headwater.log.record import Record

_PAGE = 1000  # events that are read from a store at once
_HEADS = 200


OpenEvent = Callable[[str, EventRow], EventRow | None]
"""Decrypts an event of a journal, given by its id; None for one that was erased."""


class PlacedEvent(NamedTuple):
    """An event, its journal, and the place behind it."""

    id: str
    row: EventRow
    place: FollowPlace


class PartitionFollow:
    """Follows one partition. `place`: where it goes on. `claimed`: whether records count by their claims.

    `quarantined`: tells whether an unreadable record is left out, by its offset. `tags`, `ids`: only events with one of these tags, only
    these journals; empty: all. `opens`: decrypts an event of a journal; None where it was erased, and is left out. Deletes and Purges
    take nothing back: the events are those that were appended.
    """

    def __init__(
        self,
        partition: int,
        place: FollowPlace,
        *,
        claimed: bool,
        quarantined: Callable[[int], bool],
        tags: Collection[str] = (),
        ids: Collection[str] = (),
        opens: OpenEvent = lambda id, row: row,
    ) -> None:
        self.partition, self.place, self._opens = partition, place, opens
        self._quarantined, self._tags = quarantined, frozenset(tags)
        self._ids, self._keys = frozenset(ids), frozenset(map(key_of, ids))
        self._epochs = epochs_from(place.epoch, claimed=claimed)

    def events(self, records: Sequence[Record]) -> Iterator[PlacedEvent]:
        """The events of the next records. `place` moves with them. Errors: `UnreadableRecord`, those of `opens`; `place` is then that of
        the record, or of the event."""
        for record in records:
            offset = record.offset or 0
            had = self.place.had if self.place.offset == offset else 0
            counts = self._epochs.admits(record) and record.key is not None  # claims, which have no key, raise the epoch
            behind = FollowPlace(offset + 1, 0, self._epochs.epoch)
            if counts and (not self._keys or record.key in self._keys):
                rows = self._rows(record)
                assert record.key is not None
                id = record.key.decode() if rows else ""
                for row in rows:
                    if row.seq_nr <= had or not self._wants(row):
                        continue
                    opened = self._opens(id, row)
                    self.place = behind if row is rows[-1] else FollowPlace(offset, row.seq_nr, self._epochs.epoch)
                    if opened is not None:
                        yield PlacedEvent(id, opened, self.place)
            self.place = behind

    def readable(self, records: Sequence[Record]) -> tuple[list[PlacedEvent], HeadwaterError | None]:
        """The events of the next records up to the first one that cannot be read or opened, and its error. `place` is then there."""
        events: list[PlacedEvent] = []
        try:
            events.extend(self.events(records))
        except HeadwaterError as error:
            return events, error
        return events, None

    def _rows(self, record: Record) -> list[EventRow]:
        try:
            return event_rows(record, self.partition)
        except UnreadableRecord:
            if self._quarantined(record.offset or 0):
                return []
            raise

    def _wants(self, row: EventRow) -> bool:
        return not self._tags or not self._tags.isdisjoint(row.tags)

    # -- what the log has deleted -------------------------------------------------------------------------------

    def copied(self, topic: str, copy: PartitionStore | None, until: int) -> list[PlacedEvent]:
        """A page of the events that the store has of the records [place, until), which the log no longer keeps; empty at the end, and then
        `place` is `until`. They come journal by journal, by number. Deleted events and purged journals are not among them.

        Errors: `LogGap` where the store lacks some of the records.
        """
        place = self.place
        if place.until < 0:
            place = FollowPlace(place.offset, place.had, place.epoch, until)
        for attempt in range(AGAIN):
            try:
                events, place = self._page(topic, copy, place)
                break
            except Conflict:  # the store has no transactions, and was written meanwhile
                if attempt == AGAIN - 1:
                    raise
        self.place = place
        return events

    def _page(self, topic: str, copy: PartitionStore | None, place: FollowPlace) -> tuple[list[PlacedEvent], FollowPlace]:
        if copy is None:
            raise gap(topic, self.partition, place.offset or 0, place.until)
        events: list[PlacedEvent] = []
        with copy.view() as view:
            if view.pointer.offset + 1 < place.until:
                raise gap(topic, self.partition, view.pointer.offset + 1, place.until)
            if place.id and not self._journal(view, place.id, place, events):
                return events, events[-1].place
            after = place.id or None
            while heads := view.heads(after, _HEADS):
                for id, _ in heads:
                    if (not self._ids or id in self._ids) and not self._journal(view, id, place, events):
                        return events, events[-1].place
                after = heads[-1][0]
                if len(events) >= _PAGE:
                    return events, msgspec.structs.replace(place, id=after, number=(1 << 63) - 1)
        return events, FollowPlace(place.until, 0, place.epoch)

    def _journal(self, view: PartitionView, id: str, place: FollowPlace, events: list[PlacedEvent]) -> bool:
        """Add the events of a journal; whether these are all: a page ends between two numbers."""
        head = view.head(id)
        start = place.number + 1 if id == place.id else 1
        if head is None or start > head.last:
            return True
        ready, first = len(events) >= _PAGE, 0
        for rows in view.rows(id, head, start):
            for row in rows:
                if not self._in_range(row, place) or not self._wants(row):
                    continue
                if ready and row.seq_nr != first:
                    return False
                opened = self._opens(id, row)
                if opened is None:
                    continue
                events.append(PlacedEvent(id, opened, msgspec.structs.replace(place, id=id, number=row.seq_nr)))
                ready, first = len(events) >= _PAGE, row.seq_nr
        return True

    @staticmethod
    def _in_range(row: EventRow, place: FollowPlace) -> bool:
        """Whether the event is of a deleted record, and one that the follower has not had."""
        first = place.offset or 0
        return first <= row.offset < place.until and (row.offset > first or row.seq_nr > place.had)


def deleted_before_read(topic: str, partition: int, wanted: int, start: int, hint: str) -> OffsetGone:
    """The error for a follower that wants records which the log has deleted."""
    return OffsetGone(
        f"The log of {topic}/{partition} begins at offset {start}: the records {wanted} to {start - 1} are deleted.", hint=hint
    )


def beyond_the_end(topic: str, partition: int, error: BadBounds, hint: str) -> Differs:
    """The error for a follower that has read more than the log holds, as of one that was brought back from a backup."""
    return Differs(f"{error.message} {topic}/{partition} holds less than what was read of it: it is an older copy.", hint=hint)
