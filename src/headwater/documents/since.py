"""What has changed since a revision, for clients that were offline: the newest state of each item, and what was deleted."""

from __future__ import annotations

import msgspec

from headwater.documents.catch_up import PartitionHistory
from headwater.documents.feed_event import FeedEvent, of_item
from headwater.documents.path import ResourcePath
from headwater.wire import json
from headwater.wire.times import show_time

MOST_CHANGES = 10_000  # that are looked at for one answer


class ChangedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document or item that has changed: its state now, or that it is deleted. A deleted collection takes all its items with it."""

    path: str
    revision: int
    time: str | int | None = None
    deleted: bool = False
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class ChangedItems(msgspec.Struct, frozen=True, kw_only=True):
    """What has changed, the earliest change first. `revision`: ask for what has changed after this one next. `more`: at once.

    `reset`: history does not reach back so far, or the revision has never been. Read everything, then ask from `revision` on: what was
    changed meanwhile comes once more, and a state replaces one.
    """

    revision: int
    items: list[ChangedItem] = []
    more: bool = False
    reset: bool = False

    def lines(self) -> bytes:
        """As NDJSON: an item a line, and the rest in the last one."""
        rest = {"revision": self.revision, "more": self.more, "reset": self.reset}
        return b"".join([json.encode(item) + b"\n" for item in self.items]) + json.encode(rest) + b"\n"


def changed_since(history: PartitionHistory, path: ResourcePath, revision: int) -> ChangedItems:
    """What has changed after a revision. Blocking. Errors: those of the log and the store."""
    last: dict[str, FeedEvent] = {}
    end = history.log.bounds(history.topic, history.partition).end
    seen_count, more, start = 0, True, revision
    while more and seen_count < MOST_CHANGES:
        page = history.page(path.uri, revision, end)
        if page.gone:
            return ChangedItems(revision=history.revision_at(path.uri, end), reset=True)
        for event in of_item(page.events, path.item) if path.item else page.events:
            if not event.item and event.method == "delete":
                last.clear()
            last.pop(event.path, None)
            last[event.path] = event
        revision, more = page.revision, page.more
        seen_count = revision - start
    return ChangedItems(revision=revision, items=[_item(event) for event in last.values()], more=more)


def _item(event: FeedEvent) -> ChangedItem:
    body = msgspec.Raw(event.state) if event.state else msgspec.UNSET
    return ChangedItem(
        path=event.path, revision=event.revision, time=show_time(event.time or None), deleted=body is msgspec.UNSET, body=body
    )
