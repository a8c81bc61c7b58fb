"""Feeds of documents, collections and items: what has changed since a revision, and then what changes, as long as one follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from headwater.core.clock import Clock
from headwater.documents.catch_up import PartitionHistory
from headwater.documents.dispatch import FeedTarget, PartitionDispatch, Subscription
from headwater.documents.feed_event import FeedEvent, of_item
from headwater.documents.feed_snapshot import FeedSnapshot
from headwater.documents.path import ResourcePath, partition_of
from headwater.documents.store import DocumentView
from headwater.log import Log
from headwater.log.record import Topic


class DocumentFeeds:
    """The feeds of one log in this process. Belongs to one event loop.

    `view` gives a moment of a partition; it is called in threads. Any process may follow: it needs the log and a view, not ownership.
    """

    def __init__(self, log: Log, topic: Topic, view: Callable[[int], AbstractContextManager[DocumentView]], clock: Clock) -> None:
        self.log, self.topic, self.clock = log, topic, clock
        self._view = view
        self._histories: dict[int, PartitionHistory] = {}
        self._dispatches: dict[int, PartitionDispatch] = {}

    def history(self, partition: int) -> PartitionHistory:
        """The changes of a partition's documents."""
        if partition not in self._histories:
            self._histories[partition] = PartitionHistory(self.log, self.topic.name, partition, partial(self._view, partition))
        return self._histories[partition]

    def history_of(self, uri: str) -> PartitionHistory:
        """The changes of the partition that holds a document or collection."""
        return self.history(partition_of(uri, self.topic.partitions))

    def dispatch(self, partition: int) -> PartitionDispatch:
        """The followers of a partition."""
        if partition not in self._dispatches:
            self._dispatches[partition] = PartitionDispatch(self.log, self.topic.name, partition)
        return self._dispatches[partition]

    async def follow(self, path: ResourcePath, *, after: int | None = None, snapshot: bool = False) -> AsyncGenerator[Sequence[FeedEvent]]:
        """Events of a document, a collection or an item for ever, in portions of at least one.

        With `after`: every change after this revision, each once and in order; revisions of a document or collection have no gap. Where
        history does not reach back so far, or this revision has never been, a `reset` comes first, and then a snapshot. Without `after`:
        changes from now on, with `snapshot` after the state as it is now. A change that was accepted before the call is in what follows,
        or in the snapshot. Changes of an item are its own and the deletion of its collection; their revisions are the collection's.

        A follower that takes events too slowly costs no memory: it reads the log again from where it is. Errors: those of the log and the
        store; `Closed`.
        """
        history, target, revision = self.history_of(path.uri), FeedTarget(path.uri, path.item), after
        snapshot = snapshot and after is None
        while True:
            if snapshot:
                state, ended = FeedSnapshot(history, path), False
                while not ended:
                    events, ended = await asyncio.to_thread(state.page)
                    yield events
                revision, snapshot = state.revision, False
            subscription = Subscription()
            async with self.dispatch(history.partition).joined(target, subscription) as start:
                if revision is None:
                    revision = await asyncio.to_thread(history.revision_at, path.uri, start)
                more = True
                while more:
                    page = await asyncio.to_thread(history.page, path.uri, revision, start)
                    revision, more, snapshot = page.revision, page.more, page.gone
                    if events := of_item(page.events, path.item) if path.item else page.events:
                        yield events
                while not snapshot and (live := await subscription.take()) is not None:
                    fresh = [event for event in live if event.revision > revision]
                    if fresh and not path.item and fresh[0].revision != revision + 1:
                        break  # the log's own order decides
                    if fresh:
                        revision = fresh[-1].revision
                        yield fresh
            if snapshot:
                yield [FeedEvent(kind="reset", path=path.text, item=path.item, revision=revision)]

    async def now(self, path: ResourcePath) -> int:
        """The revision behind which changes come from now on. Who tells its client that it follows begins there: `follow` without a
        revision begins when its first event is asked for. Errors: those of the log and the store."""
        history = self.history_of(path.uri)
        end = await asyncio.to_thread(lambda: self.log.bounds(self.topic.name, history.partition).end)
        return await asyncio.to_thread(history.revision_at, path.uri, end)

    async def poll(self, path: ResourcePath, after: int, *, wait: float = 0.0) -> list[FeedEvent]:
        """The next events after a revision; none where none comes within `wait` seconds. A `reset` comes alone: read the state, and go on
        from its revision. Errors: as `follow`."""
        history, revision, more = self.history_of(path.uri), after, True
        while more:
            end = await asyncio.to_thread(lambda: self.log.bounds(self.topic.name, history.partition).end)
            page = await asyncio.to_thread(history.page, path.uri, revision, end)
            if page.gone:
                return [FeedEvent(kind="reset", path=path.text, item=path.item, revision=revision)]
            if events := of_item(page.events, path.item) if path.item else page.events:
                return events
            revision, more = page.revision, page.more
        following = self.follow(path, after=revision)
        try:
            async with self.clock.timeout(wait):
                return list(await anext(following)) if wait > 0 else []
        except TimeoutError:
            return []
        finally:
            await following.aclose()

    async def aclose(self) -> None:
        """End all followers with `Closed`. Closes neither the log nor the stores."""
        await asyncio.gather(*(dispatch.aclose() for dispatch in self._dispatches.values()))
