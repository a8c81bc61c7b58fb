"""Live queries: the items of a collection that fulfil a filter, and then what enters, changes and leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from headwater.core.document_errors import BadFilter
from headwater.core.errors import BadInput
from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent, FeedKind
from headwater.documents.filter.evaluate import Filter, compile_filter
from headwater.documents.path import ResourcePath
from headwater.wire.json import UNREADABLE, decoder

MOST_ITEMS = 100_000  # that a live query keeps in mind
_KEPT = 256  # events whose outcome the followers of one filter share
_decode = decoder(dict[str, Any])


class LiveFilter:
    """A filter of live queries. All queries with one text share it: each change is decoded and judged once, and encoded once."""

    def __init__(self, judge: Filter) -> None:
        self._judge = judge
        self._outcomes: dict[tuple[int, int, int], bool] = {}
        self._events: dict[tuple[int, int, int, str], FeedEvent] = {}

    def accepts(self, event: FeedEvent) -> bool:
        """Whether the state after a change, or of a snapshot, fulfils the filter."""
        if event.offset < 0:
            return self._accepts(event.state)
        key = (event.partition, event.offset, event.revision)
        if key not in self._outcomes:
            self._outcomes[key] = self._accepts(event.state)
            if len(self._outcomes) > _KEPT:
                del self._outcomes[next(iter(self._outcomes))]
        return self._outcomes[key]

    def told(self, event: FeedEvent, kind: FeedKind) -> FeedEvent:
        """A change as an event of the query, with the whole state of the item."""
        key = (event.partition, event.offset, event.revision, kind)
        if key not in self._events:
            body = b"" if kind == "leave" else event.state
            self._events[key] = msgspec.structs.replace(event, kind=kind, body=body, message=b"", frame=b"")
            if len(self._events) > _KEPT:
                del self._events[next(iter(self._events))]
        return self._events[key]

    def _accepts(self, state: bytes) -> bool:
        try:
            return bool(state) and self._judge.accepts(_decode(state))
        except UNREADABLE:
            return False


class LiveQueries:
    """The live queries of this process. Belongs to one event loop."""

    def __init__(self, feeds: DocumentFeeds) -> None:
        self._feeds = feeds
        self._filters: WeakValueDictionary[str, LiveFilter] = WeakValueDictionary()

    async def follow(self, path: ResourcePath, text: str, *, after: int | None = None) -> AsyncGenerator[Sequence[FeedEvent]]:
        """The items of a collection that fulfil a filter, then `enter`, `change` and `leave` for ever, in portions of at least one.

        What an item was before a change, the query knows by the ids of the items that fulfil the filter: it keeps these in mind, and
        nothing else. So it always begins with the state; with `after`, the revision of an event that was had, a `reset` precedes it.
        `enter` and `change` have the whole state of the item, `leave` has no body. The deletion of the collection is a `leave` of each.

        Errors: `BadFilter`, also for a filter that more than 100 000 items fulfil; `BadInput` for what is no collection; those of `follow`.
        """
        if not path.is_collection:
            raise BadInput(f"{path.text} is no collection, and only items enter and leave.", hint="Follow it without a filter.")
        live = self._filter(text)
        inside: set[str] = set()
        if after is not None:
            yield [FeedEvent(kind="reset", path=path.text, revision=after)]
        async for events in self._feeds.follow(path, snapshot=True):
            told = [one for event in events for one in _told(event, live, inside)]
            if len(inside) > MOST_ITEMS:
                raise BadFilter(f"More than {MOST_ITEMS} items fulfil the filter.", hint="Follow the whole collection, or fewer items.")
            if told:
                yield told

    def _filter(self, text: str) -> LiveFilter:
        """The filter that all queries of this text share. Errors: `BadFilter`."""
        live = self._filters.get(text)
        if live is None:
            live = self._filters[text] = LiveFilter(compile_filter(text))
        return live


def _told(event: FeedEvent, live: LiveFilter, inside: set[str]) -> list[FeedEvent]:
    """What a query tells of an event of its collection. `inside`: the items that fulfil the filter, before and after it."""
    item, was = event.item, event.item in inside
    if event.kind == "reset":
        inside.clear()
        return [event]
    if event.kind == "end":
        return [event]
    if not item:  # the collection itself: only its deletion changes items
        if event.method != "delete":
            return []
        left = sorted(inside)
        inside.clear()
        if event.kind == "snapshot":
            return [event]
        return [msgspec.structs.replace(event, kind="leave", path=f"{event.path}/{one}", item=one, message=b"", frame=b"") for one in left]
    now = live.accepts(event)
    if now:
        inside.add(item)
    else:
        inside.discard(item)
    if event.kind == "snapshot":
        if now:
            return [event]
        return [msgspec.structs.replace(event, method="delete", body=b"", message=b"", frame=b"")] if was else []
    if not was and not now:
        return []
    return [live.told(event, "change" if was and now else "enter" if now else "leave")]
