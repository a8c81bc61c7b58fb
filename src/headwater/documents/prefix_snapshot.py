"""The state of every document and collection below a prefix, in one partition, page by page."""

from __future__ import annotations

from headwater.documents.catch_up import PAGE_BYTES, PartitionHistory
from headwater.documents.feed_event import FeedEvent, row_event, state_event
from headwater.documents.row_pages import RowPages
from headwater.documents.store import DocumentView

PAGE = 100  # documents and items of a page, unless `PAGE_BYTES` ends it before


class PrefixSnapshot:
    """Reads the snapshot of one follower. Blocking.

    As `FeedSnapshot`: each page is of the moment at which it is read, and says first what has happened since the last one to what was
    given already. At its end, it is exactly the state that the records below `offset` have made.
    """

    def __init__(self, history: PartitionHistory, prefix: str) -> None:
        self._history, self._prefix = history, prefix
        self._uri, self._item, self._whole = "", "", True  # what was given last; whole: all items of that collection were
        self._rows = RowPages(PAGE, PAGE_BYTES)
        self.offset = -1
        """Every record below it is in what was given; -1 before the first page."""

    def page(self) -> tuple[list[FeedEvent], bool]:
        """The next events, and whether they end the partition. Errors: `OffsetGone` where the log was deleted faster than the follower
        reads: begin anew; those of the store and the log."""
        with self._history.view() as view:
            applied, uri, item, whole = view.applied(), self._uri, self._item, self._whole
            events, ended = self._read(view)
        # What was given before this page has changed meanwhile. The page itself is of `applied`.
        changed = self._since(applied, uri, item, whole) if 0 <= self.offset < applied else []
        self.offset = applied
        return [*changed, *events], ended

    def _read(self, view: DocumentView) -> tuple[list[FeedEvent], bool]:
        events: list[FeedEvent] = []
        size = 0
        while len(events) < PAGE and size < PAGE_BYTES:
            if not self._whole:
                rows, self._whole = self._rows.page(view, self._uri, self._item)
                events += [row_event(self._uri, row) for row in rows]
                size += sum(len(row.body) for row in rows)
                self._item = rows[-1].item if rows else self._item
                continue
            heads = view.heads(prefix=self._prefix, after=self._uri, limit=PAGE)
            if not heads:
                return events, True
            for head in heads:
                self._uri, self._item = head.uri, ""
                if head.deleted:
                    continue
                if head.uri.endswith("~"):
                    self._whole = False
                    break
                row = view.row(head.uri)
                if row is not None:
                    events.append(row_event(head.uri, row))
                    size += len(row.body)
                if size >= PAGE_BYTES:
                    break
        return events, False

    def _since(self, applied: int, uri: str, item: str, whole: bool) -> list[FeedEvent]:
        """What the records up to `applied` have done to what lies at or before a place."""
        last: dict[str, FeedEvent] = {}
        for event in self._history.below(self._prefix, self.offset, applied):
            of = event.path.removesuffix(f"/{event.item}") if event.item else event.path
            if of > uri or (of == uri and not whole and event.item > item):
                continue
            if not event.item and event.method == "delete":  # and with a collection, its items
                last = {path: kept for path, kept in last.items() if not path.startswith(f"{of}/")}
            last.pop(event.path, None)
            last[event.path] = state_event(event)
        return list(last.values())
