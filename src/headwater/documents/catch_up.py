"""Reads what followers of a document or collection have missed, from the places that the store keeps of every change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from headwater.core.errors import BadBounds, LogGap, OffsetGone
from headwater.documents.change import decode_record
from headwater.documents.dispatch import read_events
from headwater.documents.epoch_before import epoch_before
from headwater.documents.feed_event import FeedEvent
from headwater.documents.store import ChangePlace, DocumentView
from headwater.log import Log
from headwater.log.epochs import Epochs
from headwater.log.record import Record

PAGE = 256  # changes of a page
PAGE_BYTES = 256 << 10  # bytes of a page, unless a single change is larger: a thousand slow followers hold one each
_FIRST = 8  # records that are read before their size is known
_SCAN = 1000  # records that are read at once


class CatchUpPage(NamedTuple):
    """Changes after a revision. `revision`: the last one that was looked at. `more`: ask for the next page.

    `gone`: history does not reach back to the revision, or the revision has never been: begin anew.
    """

    events: list[FeedEvent]
    revision: int
    more: bool = False
    gone: bool = False


class PartitionHistory:
    """The changes of documents and collections of one partition, by revision. Blocking."""

    def __init__(self, log: Log, topic: str, partition: int, view: Callable[[], AbstractContextManager[DocumentView]]) -> None:
        self.log, self.topic, self.partition, self.view = log, topic, partition, view

    def page(self, uri: str, after: int, stop: int) -> CatchUpPage:
        """Changes with a greater revision than `after` whose records lie below the offset `stop`, in order and without gaps.

        The store tells their places; what it has not applied yet is read from the log. Errors: `Damaged`, `LogGap`, `Unavailable`.
        """
        with self.view() as view:
            applied = view.applied()  # first: what lies behind it may not be whole in the store
            head = view.head(uri)
            places = view.changes(uri, after=after, limit=PAGE)
        applied_places = [place for place in places if place.offset < applied]
        if applied_places and applied_places[0].revision != after + 1:
            return CatchUpPage([], after, gone=True)
        events: list[FeedEvent] = []
        if places_before := [place for place in applied_places if place.offset < stop]:
            read = self._read(uri, places_before)
            if not read:
                return CatchUpPage([], after, gone=True)
            events += read
            if events[-1].revision < places_before[-1].revision or len(places_before) == PAGE:
                return CatchUpPage(events, events[-1].revision, more=True)
        latest = head.revision if head is not None else 0
        more = False
        if applied < stop:
            last, size = events[-1].revision if events else after, 0
            try:
                for event in self.tail(uri, applied, stop):
                    latest = max(latest, event.revision)
                    if event.revision > last:
                        events.append(event)
                        size += event.size
                    if len(events) >= PAGE or size > PAGE_BYTES:
                        more = True
                        break
            except OffsetGone as error:
                self._check_applied(applied, error)
                more = True
        if events:
            in_order = events[0].revision == after + 1
            return CatchUpPage(events, events[-1].revision, more) if in_order else CatchUpPage([], after, gone=True)
        return CatchUpPage([], after, more, gone=not more and not places and latest != after)

    def revision_at(self, uri: str, stop: int) -> int:
        """The revision of a document or collection after the records below the offset `stop`."""
        with self.view() as view:
            applied, head, before = view.applied(), view.head(uri), 0
            while True:
                places = view.changes(uri, after=before, limit=PAGE, reverse=True)
                revision = next((place.revision for place in places if place.offset < stop), -1)
                if revision >= 0 or len(places) < PAGE:
                    break
                before = places[-1].revision
        if revision < 0:
            revision = places[-1].revision - 1 if places else max(before - 1, 0) or (head.revision if head is not None else 0)
        return max([revision, *(event.revision for event in self.tail(uri, applied, stop))])

    def tail(self, uri: str, start: int, stop: int) -> Iterator[FeedEvent]:
        """The changes of a document or collection whose records lie at offsets [start, stop). Errors: `OffsetGone`, `Damaged`."""
        return self._scanned(PartitionScan(self, start, uri=uri), stop) if start < stop else iter(())

    def below(self, prefix: str, start: int, stop: int) -> Iterator[FeedEvent]:
        """The changes below a prefix whose records lie at offsets [start, stop), of all documents in the log's order. Errors: as `tail`."""
        return self._scanned(self.scan(prefix, start), stop)

    def scan(self, prefix: str, start: int) -> PartitionScan:
        """Reads the changes below a prefix from an offset on."""
        return PartitionScan(self, start, prefix=prefix)

    def _scanned(self, scan: PartitionScan, stop: int) -> Iterator[FeedEvent]:
        while scan.offset < stop:
            yield from scan.page(stop)

    def records(self, places: Sequence[ChangePlace]) -> list[Record | None]:
        """The records at places; None where the log has deleted one. Errors: `LogGap` where the log ends before one."""
        try:
            return self.log.read_at(self.topic, self.partition, [place.offset for place in places])
        except BadBounds as error:
            raise LogGap(
                f"The store of {self.topic}/{self.partition} has applied offset {places[-1].offset}, behind the log's end.",
                hint="The log is older than the store: see `headwater doc verify`.",
            ) from error

    def _check_applied(self, before: int, error: OffsetGone) -> None:
        """The log is deleted only up to what the store has applied: by now, that is more. Errors: `LogGap` where it is not."""
        with self.view() as view:
            if view.applied() <= before:
                raise LogGap(
                    f"The store has applied {self.topic}/{self.partition} up to offset {before}, and the log begins behind it.",
                    hint="Bring back the store, or fold it anew with `headwater doc rebuild`.",
                ) from error

    def source_at(self, place: ChangePlace) -> str:
        """The `source` of the record at a place; empty where the log has deleted it, or it has none."""
        (record,) = self.records([place])
        return "" if record is None else decode_record(record.value, f"{self.topic}/{self.partition}, offset {place.offset}").source

    def _read(self, uri: str, places: Sequence[ChangePlace]) -> list[FeedEvent]:
        """The changes at places, as many as fit into a page, at least one; none where the log has deleted the first."""
        events: list[FeedEvent] = []
        size, at, count, offset = 0, 0, _FIRST, -1
        while at < len(places) and size < PAGE_BYTES:
            chunk = [place for place in places[at : at + count] if place.offset != offset]
            for record in self.records(chunk):
                if record is None:
                    return events  # a later page begins with it, and finds it gone
                if record.offset == offset:
                    continue  # several changes of one record
                offset = record.offset or 0
                size += len(record.value or b"")
                record_events = [
                    event
                    for event in read_events(record, self.topic, self.partition)
                    if places[0].revision <= event.revision <= places[-1].revision
                ]
                if not record_events or record.key != uri.encode():
                    raise LogGap(
                        f"Offset {offset} of {self.topic}/{self.partition} is no change of {uri}, as the store says.",
                        hint="The log is another than the store's: see `headwater doc verify`.",
                    )
                events += record_events
            at, count = at + count, count * 2
        return events


class PartitionScan:
    """Reads the log from an offset on, and picks the changes of one document or collection, or those below a prefix. Blocking."""

    def __init__(self, history: PartitionHistory, offset: int, *, uri: str | None = None, prefix: str = "") -> None:
        self._history, self.offset = history, offset
        """`offset`: everything below it was read."""
        self._uri, self._prefix = None if uri is None else uri.encode(), prefix.encode()
        self._epochs = Epochs(epoch_before(history.log, history.topic, history.partition, offset))

    def page(self, stop: int) -> list[FeedEvent]:
        """The changes of the next records below `stop`. Errors: `OffsetGone`, `Damaged`."""
        history, events = self._history, list[FeedEvent]()
        records = history.log.read(
            history.topic, history.partition, self.offset, limit=max(1, min(_SCAN, stop - self.offset)), max_bytes=PAGE_BYTES
        )
        for record in records:
            if (record.offset or 0) < stop and self._epochs.admits(record) and self._picks(record.key or b""):
                events += read_events(record, history.topic, history.partition)
        self.offset = min((records[-1].offset or 0) + 1, stop) if records else stop
        return events

    def _picks(self, key: bytes) -> bool:
        return key == self._uri if self._uri is not None else key.startswith(self._prefix)
