"""Live queries: the items of a collection that fulfil a filter, and then what enters, changes and leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from headwater.core.clock import Clock
from headwater.core.document_errors import BadFilter, QueryTimeout
from headwater.core.errors import BadInput
from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent, FeedKind
from headwater.documents.filter.evaluate import Filter, compile_filter
from headwater.documents.path import ResourcePath
from headwater.wire.json import UNREADABLE, decoder

MOST_ITEMS = 100_000  # that a live query keeps in mind
_KEPT = 256  # events whose outcome the followers of one filter share
_decode = decoder(dict[str, Any])


class _Outcome(NamedTuple):
    """Where it is said whether an event's state fulfils the filter: by a task, as the one of so many."""

    judging: asyncio.Task[list[bool]]
    number: int


class LiveFilter:
    """A filter of live queries. All queries with one text share it: each change is decoded and judged once, and encoded once.

    Belongs to one event loop. States are decoded and judged in a thread: a filter may take milliseconds for each item of a portion.
    """

    def __init__(self, judge: Filter, *, clock: Clock, seconds: float) -> None:
        """`seconds`: how long the states of one portion may take."""
        self._judge, self._clock, self._seconds = judge, clock, seconds
        self._outcomes: dict[tuple[int, int, int], _Outcome] = {}
        self._events: dict[tuple[int, int, int, str], FeedEvent] = {}

    async def accepts(self, events: Sequence[FeedEvent]) -> list[bool]:
        """Whether the states after changes, or of a snapshot, fulfil the filter. Errors: `QueryTimeout`."""
        known_outcomes = [self._outcomes.get(_key(event)) for event in events]
        states = [event.state for event, outcome in zip(events, known_outcomes, strict=True) if outcome is None]
        outcomes: list[_Outcome] = []
        if states:
            # A task of its own: a follower that goes away must not end it for the others.
            judging = asyncio.create_task(asyncio.to_thread(self._judged, states), name="judging for live queries")
            judging.add_done_callback(self._forget_failed)
        number = 0
        for event, outcome in zip(events, known_outcomes, strict=True):
            if outcome is None:
                outcome, number = _Outcome(judging, number), number + 1
                if event.offset >= 0:  # others follow the same changes, and have snapshots of their own
                    self._outcomes[_key(event)] = outcome
            outcomes.append(outcome)
        for key in list(self._outcomes)[: max(0, len(self._outcomes) - _KEPT)]:
            del self._outcomes[key]
        return [(await asyncio.shield(outcome.judging))[outcome.number] for outcome in outcomes]

    def told(self, event: FeedEvent, kind: FeedKind) -> FeedEvent:
        """A change as an event of the query, with the whole state of the item."""
        key = (event.partition, event.offset, event.revision, kind)
        if key not in self._events:
            body = b"" if kind == "leave" else event.state
            self._events[key] = msgspec.structs.replace(event, kind=kind, body=body, message=b"", frame=b"")
            if len(self._events) > _KEPT:
                del self._events[next(iter(self._events))]
        return self._events[key]

    def _judged(self, states: list[bytes]) -> list[bool]:
        """Blocking. Errors: `QueryTimeout`."""
        deadline = self._clock.monotonic() + self._seconds
        outcomes: list[bool] = []
        for state in states:
            if self._clock.monotonic() >= deadline:
                raise QueryTimeout(
                    f"The filter of the live query takes longer than {self._seconds:g} s for {len(states)} items.",
                    hint="Follow with a simpler filter, or follow the whole collection and test the items yourself.",
                )
            outcomes.append(self._accepts(state))
        return outcomes

    def _accepts(self, state: bytes) -> bool:
        try:
            return self._judge.accepts(_decode(state))
        except UNREADABLE:
            return False

    def _forget_failed(self, judging: asyncio.Task[list[bool]]) -> None:
        if judging.cancelled() or judging.exception() is not None:
            for key in [key for key, outcome in self._outcomes.items() if outcome.judging is judging]:
                del self._outcomes[key]


def _key(event: FeedEvent) -> tuple[int, int, int]:
    return event.partition, event.offset, event.revision


class LiveQueries:
    """The live queries of this process. Belongs to one event loop."""

    def __init__(self, feeds: DocumentFeeds, *, clock: Clock, seconds: float) -> None:
        """`seconds`: how long a filter may take for one portion of events."""
        self._feeds, self._clock, self._seconds = feeds, clock, seconds
        self._filters: WeakValueDictionary[str, LiveFilter] = WeakValueDictionary()

    async def follow(self, path: ResourcePath, text: str, *, after: int | None = None) -> AsyncGenerator[Sequence[FeedEvent]]:
        """The items of a collection that fulfil a filter, then `enter`, `change` and `leave` for ever, in portions of at least one.

        What an item was before a change, the query knows by the ids of the items that fulfil the filter: it keeps these in mind, and
        nothing else. So it always begins with the state; with `after`, the revision of an event that was had, a `reset` precedes it.
        `enter` and `change` have the whole state of the item, `leave` has no body. The deletion of the collection is a `leave` of each.

        Errors: `BadFilter`, also for a filter that more than 100 000 items fulfil; `BadInput` for what is no collection; `QueryTimeout`;
        those of `follow`.
        """
        if not path.is_collection:
            raise BadInput(f"{path.text} is no collection, and only items enter and leave.", hint="Follow it without a filter.")
        live = self._filter(text)
        inside: set[str] = set()
        if after is not None:
            yield [FeedEvent(kind="reset", path=path.text, revision=after)]
        async for events in self._feeds.follow(path, snapshot=True):
            judged = [event for event in events if _has_state(event)]
            outcomes = iter(await live.accepts(judged) if judged else ())
            portion = [
                live_event for event in events for live_event in _told(event, live, inside, now=_has_state(event) and next(outcomes))
            ]
            if len(inside) > MOST_ITEMS:
                raise BadFilter(f"More than {MOST_ITEMS} items fulfil the filter.", hint="Follow the whole collection, or fewer items.")
            if portion:
                yield portion

    def _filter(self, text: str) -> LiveFilter:
        """The filter that all queries of this text share. Errors: `BadFilter`."""
        live = self._filters.get(text)
        if live is None:
            live = self._filters[text] = LiveFilter(compile_filter(text), clock=self._clock, seconds=self._seconds)
        return live


def _has_state(event: FeedEvent) -> bool:
    """Whether an event is of an item that is there after it."""
    return bool(event.item and event.state)


def _told(event: FeedEvent, live: LiveFilter, inside: set[str], *, now: bool) -> list[FeedEvent]:
    """What a query tells of an event of its collection. `inside`: the items that fulfil the filter, before and after it. `now`: whether
    the item fulfils it after the event."""
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
        return [
            msgspec.structs.replace(event, kind="leave", path=f"{event.path}/{item_id}", item=item_id, message=b"", frame=b"")
            for item_id in left
        ]
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
