"""Reads of one partition, by any process: its store, and the records at the end of the log that the store lacks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.cluster import OwnedPartition
from headwater.core.errors import Differs
from headwater.documents.empty_view import EmptyView
from headwater.documents.lineage import check_lineage
from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.store import DocumentStore, DocumentStores, DocumentView, StoredPoint
from headwater.documents.tail import LogTail
from headwater.log import Log
from headwater.log.record import Topic

NOTHING = EmptyView()


class PartitionReads:
    """What everybody may see of a partition. Blocking, and safe for several threads. It writes nothing."""

    def __init__(self, log: Log, stores: DocumentStores, topic: Topic, number: int) -> None:
        self._log, self._stores, self.topic, self.number = log, stores, topic, number
        self.tail = LogTail(log, topic.name, number)
        self._opened: DocumentStore | None = None
        self._guard = threading.Lock()
        self._known = False  # that the store was folded from this log
        self.owned_end = 0
        """Where this process is the owner: the end of what it has written. It knows that without asking."""
        self.owner: OwnedPartition | None = None
        """Set while this process is the owner, as far as its writer knows."""

    @property
    def store(self) -> DocumentStore:
        """The store, which is opened here."""
        with self._guard:
            if self._opened is None:
                self._opened = self._stores.partition(self.number, self.topic.generation)
            return self._opened

    def end(self) -> int:
        """The durable end. Errors: those of the log."""
        known_end = self._log.known_end(self.topic.name, self.number)
        if known_end is not None:
            return known_end
        if self.owner is not None and not self.owner.lost:  # the group may have given it away while nobody wrote here
            return self.owned_end
        return self._log.bounds(self.topic.name, self.number).end

    @contextmanager
    def view(self, uri: str | None = None) -> Iterator[DocumentView]:
        """The partition as of the end of its log. `uri`: of this document or collection alone, which is cheaper while the store is behind.

        Errors: those of the store and the log; `Busy` where the store is very far behind; `Differs` where it has more than the log, or
        other records.
        """
        if self._opened is None and self.end() == 0:
            yield NOTHING  # a reader makes no store
            return
        with self.store.view() as stored:
            applied, end = stored.applied(), self.end()
            self._fits(stored, applied, end)
            records = self.tail.records(applied, end) if applied < end else ()
            if uri is not None and records:
                records = [appended for appended in records if appended.record.uri == uri]
            yield OverlaidView(stored, records) if records else stored

    def point(self, uri: str, item: str = "") -> StoredPoint:
        """A document or item as of the end of the log, without a view where the store is there already. Errors: as `view`."""
        if self._opened is not None and self._known:
            stored_point = self._opened.point(uri, item)
            if stored_point.applied == self.end():
                return stored_point
        with self.view(uri) as view:
            head = view.head(uri)
            return StoredPoint(view.applied(), 0 if head is None else head.revision, None if head is None else view.row(uri, item))

    def check_lineage(self, stored: DocumentView) -> None:
        """See once that the store was folded from this log. Errors: `Differs`; those of the log and the store."""
        check_lineage(self._log, stored, self.topic, self.number)
        self._known = True

    def check(self) -> None:
        """See that store and log belong together. Errors: `Differs`; those of the log and the store."""
        if self._opened is None and self.end() == 0:
            return
        with self.store.view() as stored:
            self._fits(stored, stored.applied(), self.end())

    def _fits(self, stored: DocumentView, applied: int, end: int) -> None:
        if applied > end:
            self._check_end(applied)
        elif not self._known:
            self.check_lineage(stored)

    def _check_end(self, applied: int) -> None:
        """A log that was brought back from an older copy says other things than its store: no reader must see both."""
        end = self._log.bounds(self.topic.name, self.number).end
        if applied > end and self._log.engine == "embedded":  # a broker that has just become the leader may say less for a moment
            raise store_ahead(f"{self.topic.name}/{self.number}", applied, end)

    def applied(self) -> int:
        """How far the store is."""
        if self._opened is None and self.end() == 0:
            return 0
        with self.store.view() as stored:
            return stored.applied()


def store_ahead(name: str, applied: int, end: int) -> Differs:
    """The error for a store that has applied more than the log holds."""
    return Differs(
        f"The store has applied {name} up to offset {applied}, and the log ends at {end}.",
        hint="Bring back the log that belongs to the store, or fold the store anew with `headwater doc rebuild`.",
    )
