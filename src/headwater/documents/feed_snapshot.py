"""The state of a document, an item or a collection, page by page, from which a feed goes on."""

from __future__ import annotations

from typing import Literal

from headwater.documents.catch_up import PAGE_BYTES, PartitionHistory
from headwater.documents.change import Method
from headwater.documents.feed_event import FeedEvent, FeedKind, row_event, state_event
from headwater.documents.path import ResourcePath
from headwater.documents.row_pages import RowPages

PAGE = 100  # items of a page, unless `PAGE_BYTES` ends it before


class FeedSnapshot:
    """Reads the snapshot of one follower. Blocking.

    A collection is read without keeping one moment of the store open for as long as the slowest client takes. Each page is of the moment
    at which it is read. Before it, the snapshot tells what has happened since the last page to items that it has given already. So at its
    end it is exactly the state at its revision, and the feed goes on with the next one.
    """

    def __init__(self, history: PartitionHistory, path: ResourcePath) -> None:
        self._history, self._path = history, path
        self._given = ""  # the last item
        self._first = True
        self._rows = RowPages(PAGE, PAGE_BYTES)
        self.revision = 0
        """Of the document or collection; what the snapshot has given is of this revision."""

    def page(self) -> tuple[list[FeedEvent], bool]:
        """The next events, and whether they end the snapshot. Errors: those of the store and the log."""
        uri, is_collection = self._path.uri, self._path.is_collection
        with self._history.view() as view:
            applied = view.applied()
            head = view.head(uri)
            ended = True
            if is_collection:
                rows, ended = self._rows.page(view, uri, self._given)
            else:
                row = view.row(uri, self._path.item)
                rows = [row] if row is not None else []
        events = [] if self._first else self._since(applied)
        if events is None:  # the collection is another one by now
            self._given = ""
            self.revision = head.revision if head is not None else 0
            return [self._event("snapshot", "delete")], False
        self._first = False
        self.revision = max(self.revision, head.revision if head is not None else 0)
        events += [row_event(uri, row) for row in rows]
        if not ended:
            self._given = rows[-1].item
            return events, False
        return [*events, self._event("end")], True

    def _since(self, applied: int) -> list[FeedEvent] | None:
        """What has happened to items that were given; None where they are all gone."""
        last: dict[str, FeedEvent] = {}
        revision, more = self.revision, True
        while more:
            page = self._history.page(self._path.uri, revision, applied)
            if page.gone or any(not event.item and event.method == "delete" for event in page.events):
                return None
            last.update((event.item, event) for event in page.events if event.item and event.item <= self._given)
            revision, more = page.revision, page.more
        return [state_event(event) for event in last.values()]

    def _event(self, kind: FeedKind, method: Method | Literal[""] = "") -> FeedEvent:
        return FeedEvent(kind=kind, method=method, path=self._path.text, item=self._path.item, revision=self.revision)
