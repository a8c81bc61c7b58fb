"""Feeds of everything below a prefix, over all partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import NamedTuple

from headwater.core.errors import BadInput, OffsetGone
from headwater.documents.dispatch import FeedTarget, Subscription
from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent
from headwater.documents.feed_position import FeedPlace, FeedPosition, feed_mark
from headwater.documents.prefix_snapshot import PrefixSnapshot


class PlacedFeedEvent(NamedTuple):
    """An event of one of many documents, and the position behind it; no position within a snapshot."""

    event: FeedEvent
    position: str

    def json(self) -> bytes:
        """As `FeedEvent.json`."""
        return self.event.json_at(self.position)

    def sse(self) -> bytes:
        """As `FeedEvent.sse`. What is not the position is made once for all followers."""
        return self.event.sse_at(self.position)


class PrefixFeeds:
    """Feeds of all documents and collections whose uri begins with a prefix, which ends with a slash or is empty."""

    def __init__(self, feeds: DocumentFeeds) -> None:
        self._feeds = feeds

    async def follow(self, prefix: str, *, after: str | None = None, snapshot: bool = False) -> AsyncGenerator[Sequence[PlacedFeedEvent]]:
        """Events for ever, in portions of at least one. Those of one document or collection come in order, without gap or double.

        `after`: a position that an event had. Where the log no longer has what lies behind it, or the position is of another topic, a
        `reset` comes first, and then a snapshot. Without it: changes from now on, with `snapshot` after the state as it is now. Errors:
        `BadInput` for what is no prefix or no position; those of the log and the store; `Closed`.
        """
        follower = self._follower(prefix, after)
        snapshot = snapshot and after is None
        while True:
            try:
                if not await asyncio.to_thread(follower.is_kept):
                    raise OffsetGone("The position is of another topic, or behind the log's end.")
                if snapshot:
                    async for portion in follower.snapshot():
                        yield portion
                snapshot = False
                async for portion in follower.changes():
                    yield portion
            except OffsetGone:
                yield [_reset(prefix)]
                follower.position, snapshot = None, True

    async def now(self) -> str:
        """The position behind which changes come from now on, as `DocumentFeeds.now`."""
        log, topic = self._feeds.log, self._feeds.topic
        ends = [(await asyncio.to_thread(log.bounds, topic.name, number)).end for number in range(topic.partitions)]
        return str(FeedPosition(feed_mark(topic.generation), tuple(map(FeedPlace, ends))))

    async def poll(self, prefix: str, after: str, *, wait: float = 0.0) -> Sequence[PlacedFeedEvent]:
        """The next events behind a position; none where none comes within `wait` seconds. A `reset` comes alone: read the state, and go on
        from there. Errors: as `follow`."""
        follower = self._follower(prefix, after)
        if not await asyncio.to_thread(follower.is_kept):
            return [_reset(prefix)]
        try:
            if portion := await anext(follower.missed(), None):
                return portion
            async with self._feeds.clock.timeout(wait), aclosing(follower.changes()) as following:
                return await anext(following, []) if wait > 0 else []
        except OffsetGone:
            return [_reset(prefix)]
        except TimeoutError:
            return []

    def _follower(self, prefix: str, after: str | None) -> _PrefixFollower:
        if prefix and not prefix.endswith("/"):
            raise BadInput(f"{prefix!r:.60} is no prefix of paths.", hint="End it with a slash.")
        return _PrefixFollower(self._feeds, prefix, None if after is None else FeedPosition.read(after))


def _reset(prefix: str) -> PlacedFeedEvent:
    return PlacedFeedEvent(FeedEvent(kind="reset", path=prefix), "")


class _PrefixFollower:
    """One follower, and its position; None: from now on."""

    def __init__(self, feeds: DocumentFeeds, prefix: str, position: FeedPosition | None) -> None:
        self._feeds, self._prefix, self.position = feeds, prefix, position

    def is_kept(self) -> bool:
        """Whether the log has everything behind the position. Blocking."""
        log, position = self._feeds.log, self.position
        if position is None:
            return True
        topic = log.topic(self._feeds.topic.name)
        if position.mark != feed_mark(topic.generation) or len(position.places) != topic.partitions:
            return False
        bounds = [log.bounds(topic.name, number) for number in range(topic.partitions)]
        return all(
            partition_bounds.start <= place.offset <= partition_bounds.end
            for partition_bounds, place in zip(bounds, position.places, strict=True)
        )

    async def snapshot(self) -> AsyncGenerator[list[PlacedFeedEvent]]:
        """The state. Errors: `OffsetGone` where the log was deleted faster than the follower reads."""
        places: list[FeedPlace] = []
        for number in range(self._feeds.topic.partitions):
            state, ended = PrefixSnapshot(self._feeds.history(number), self._prefix), False
            while not ended:
                events, ended = await asyncio.to_thread(state.page)
                if events:
                    yield [PlacedFeedEvent(event, "") for event in events]
            places.append(FeedPlace(state.offset))
        self.position = FeedPosition(feed_mark(self._feeds.topic.generation), tuple(places))
        yield [PlacedFeedEvent(FeedEvent(kind="end", path=self._prefix), str(self.position))]

    async def changes(self) -> AsyncGenerator[list[PlacedFeedEvent]]:
        """Changes behind the position, until the follower is too slow. Errors: `OffsetGone`."""
        feeds, subscription, target = self._feeds, Subscription(), FeedTarget(self._prefix, below=True)
        async with AsyncExitStack() as stack:
            numbers = range(feeds.topic.partitions)
            starts = [await stack.enter_async_context(feeds.dispatch(number).joined(target, subscription)) for number in numbers]
            if self.position is None:
                self.position = FeedPosition(feed_mark(feeds.topic.generation), tuple(map(FeedPlace, starts)))
            for number, start in enumerate(starts):
                async for portion in self._missed(number, self.position.places[number].offset, start):
                    yield portion
            while (events := await subscription.take()) is not None:
                portion = self._placed(events)
                # Nothing waits any more: what the partitions have read beside it is no change below the prefix, and need not be read again.
                for number in () if subscription.failed else numbers:
                    self.position = self.position.at(number, max(self.position.places[number], FeedPlace(feeds.dispatch(number).next)))
                if portion:
                    yield [*portion[:-1], portion[-1]._replace(position=str(self.position))]

    async def missed(self) -> AsyncGenerator[list[PlacedFeedEvent]]:
        """Changes between the position and the log's end. Errors: `OffsetGone`."""
        assert self.position is not None, "only a follower that knows its position has missed something"
        for number, place in enumerate(self.position.places):
            bounds = await asyncio.to_thread(self._feeds.log.bounds, self._feeds.topic.name, number)
            async for portion in self._missed(number, place.offset, bounds.end):
                yield portion

    async def _missed(self, number: int, offset: int, stop: int) -> AsyncGenerator[list[PlacedFeedEvent]]:
        assert self.position is not None, "it is set before"
        if offset < stop:
            scan = await asyncio.to_thread(self._feeds.history(number).scan, self._prefix, offset)
            while scan.offset < stop:
                if portion := self._placed(await asyncio.to_thread(scan.page, stop)):
                    yield portion
                self.position = self.position.at(number, FeedPlace(scan.offset))

    def _placed(self, events: Sequence[FeedEvent]) -> list[PlacedFeedEvent]:
        """Events behind the position, which moves behind them. The events of a record are there together."""
        assert self.position is not None, "it is set before"
        portion: list[PlacedFeedEvent] = []
        counted, record = 0, (-1, -1)
        for event in events:
            counted = counted + 1 if record == (event.partition, event.offset) else 1
            record = (event.partition, event.offset)
            place = FeedPlace(event.offset, counted)
            if place > self.position.places[event.partition]:
                self.position = self.position.at(event.partition, place)
                portion.append(PlacedFeedEvent(event, str(self.position)))
        return portion
