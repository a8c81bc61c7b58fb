"""The history of documents, collections and items: their changes, and the state at a revision or a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.core.document_errors import DocumentNotFound
from headwater.core.errors import BadInput, OffsetGone
from headwater.documents.catch_up import PartitionHistory
from headwater.documents.decisions import not_found
from headwater.documents.dispatch import read_events
from headwater.documents.feed_event import FeedEvent, of_item
from headwater.documents.path import ResourcePath
from headwater.documents.store import ChangePlace, DocumentHead, DocumentView
from headwater.documents.write import ANY_STATE, Draft, Precondition

_PAGE = 256  # changes that are read at once
_MOST_SEEN = 10_000  # changes that one page of an item's history looks at


class HistoryPage(NamedTuple):
    """Changes. `next`: the revision behind which the next page begins; None: there are no more."""

    events: list[FeedEvent]
    next: int | None = None


class PastState(NamedTuple):
    """A document or item as it was. `revision`: of its last change until then; `time` of that, in ms."""

    body: bytes
    revision: int
    time: int


class DocumentHistory:
    """Reads the log through the places of changes that the store keeps. Blocking.

    `histories` gives the partition of a document or collection. What the log has deleted is gone from history, too.
    """

    def __init__(self, histories: Callable[[str], PartitionHistory]) -> None:
        self._histories = histories

    def changes(self, path: ResourcePath, *, after: int = 0, limit: int = 100, reverse: bool = False) -> HistoryPage:
        """The changes that the log keeps after a revision, or in reverse before it (0: the newest first).

        A page of an item's history looks at a limited number of changes of its collection, and may hold fewer than asked for, or none,
        though there are more. Errors: `DocumentNotFound` for what has never been; those of the log and the store.
        """
        history, events, seen_count = self._histories(path.uri), list[FeedEvent](), 0
        with history.view() as view:
            if view.head(path.uri) is None:
                raise not_found(path)
        cursor = after
        while seen_count < _MOST_SEEN:
            with history.view() as view:
                places = view.changes(path.uri, after=cursor, limit=_PAGE, reverse=reverse)
            for place, event in zip(places, _events(history, path.uri, places), strict=True):
                if event is None and reverse:
                    return HistoryPage(events)  # older ones are gone, too
                cursor = place.revision
                if event is not None and (not path.item or of_item([event], path.item)):
                    events.append(event)
                    if len(events) == limit:
                        return HistoryPage(events, cursor if not (reverse and cursor == 1) else None)
            if len(places) < _PAGE:
                return HistoryPage(events)
            seen_count += len(places)
        return HistoryPage(events, cursor)

    def at_revision(self, path: ResourcePath, revision: int) -> PastState:
        """A document or item as it was at a revision (of its collection).

        Errors: `DocumentNotFound` where it was not there; `OffsetGone` where the log no longer has it; `BadInput` for a whole collection;
        those of the log and the store.
        """
        history = self._histories(path.uri)
        with history.view() as view:
            head = _known(view, path)
            if not 1 <= revision <= head.revision:
                raise DocumentNotFound(f"{path.uri} has no revision {revision}.", hint=f"Its last one is {head.revision}.")
            row = view.row(path.uri, path.item)
            if row is not None and row.revision <= revision:
                return PastState(row.body, row.revision, row.modified)
        cursor = revision + 1
        while cursor > 1:
            with history.view() as view:
                places = view.changes(path.uri, after=cursor, limit=_PAGE if path.item else 1, reverse=True)
            if not places or places[0].revision != cursor - 1:
                raise self._gone(history, path, revision)
            for place, event in zip(places, _events(history, path.uri, places), strict=True):
                if event is None:
                    raise self._gone(history, path, revision)
                if not path.item or of_item([event], path.item):
                    if not event.state:
                        raise _was_not_there(path, f"at revision {revision}")
                    return PastState(event.state, event.revision, event.time)
                cursor = place.revision
        raise _was_not_there(path, f"at revision {revision}")

    def at_time(self, path: ResourcePath, time: int) -> PastState:
        """A document or item as it was at a time in ms. Exact where times of records do not decrease. Errors: as `at_revision`."""
        history = self._histories(path.uri)
        with history.view() as view:
            head = _known(view, path)
            first = view.changes(path.uri, limit=1)
            if not first or first[0].time > time:
                if first and first[0].revision == 1:
                    raise _was_not_there(path, "at that time")
                raise self._gone(history, path, 0)
            low, high = first[0].revision, head.revision  # the change of `low` was made by then
            while low < high:
                middle = (low + high + 1) // 2
                (place,) = view.changes(path.uri, after=middle - 1, limit=1)
                low, high = (middle, high) if place.time <= time else (low, middle - 1)
        return self.at_revision(path, low)

    def restored(self, path: ResourcePath, revision: int, condition: Precondition = ANY_STATE) -> Draft:
        """The write that gives a document or item the state again that it had at a revision. Errors: as `at_revision`."""
        return Draft(path=path, verb="put", body=self.at_revision(path, revision).body, condition=condition)

    def _gone(self, history: PartitionHistory, path: ResourcePath, revision: int) -> OffsetGone:
        """The error for what the log no longer has; it says what is kept."""
        first_revision = self.first_kept(path.uri)
        wanted = f"Revision {revision} of {path.uri}" if revision else f"The state of {path.text} at that time"
        since = f"Changes are kept from revision {first_revision} on." if first_revision else "None of its changes are kept."
        return OffsetGone(f"{wanted} can no longer be told: the log has deleted it.", hint=since)

    def first_kept(self, uri: str) -> int:
        """The first revision whose change the log keeps; 0 where it keeps none."""
        history = self._histories(uri)
        start = history.log.bounds(history.topic, history.partition).start
        with history.view() as view:
            first, last = view.changes(uri, limit=1), view.changes(uri, limit=1, reverse=True)
            if not first or last[0].offset < start:
                return 0
            low, high = first[0].revision, last[0].revision  # the change of `high` is kept
            while low < high:
                middle = (low + high) // 2
                (place,) = view.changes(uri, after=middle - 1, limit=1)
                low, high = (low, middle) if place.offset >= start else (middle + 1, high)
        return low


def _events(history: PartitionHistory, uri: str, places: Sequence[ChangePlace]) -> list[FeedEvent | None]:
    """The change at each place; None where the log has deleted it."""
    records = history.records(places) if places else []
    events_by_revision: dict[int, FeedEvent] = {}
    for offset, record in {record.offset: record for record in records if record is not None}.items():
        assert offset is not None, "the log has given it"
        events_by_revision |= {event.revision: event for event in read_events(record, history.topic, history.partition)}
    return [events_by_revision.get(place.revision) for place in places]


def _known(view: DocumentView, path: ResourcePath) -> DocumentHead:
    """Errors: `DocumentNotFound`, `BadInput`."""
    if path.is_collection:
        raise BadInput(
            f"{path.uri} is a collection, whose past is not shown as a whole.", hint=f"Name an item: {path.uri}/ID, or read its history."
        )
    head = view.head(path.uri)
    if head is None:
        raise not_found(path)
    return head


def _was_not_there(path: ResourcePath, when: str) -> DocumentNotFound:
    return DocumentNotFound(f"{path.text} was not there {when}.", hint=f"See its history: `headwater doc history {path.text}`.")
