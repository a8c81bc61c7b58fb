"""Performs the operations on changes of documents: feeds, history, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import msgspec

from headwater.client.document_reads import answered
from headwater.core.clock import Clock
from headwater.core.errors import BadInput
from headwater.documents import answers, follow_requests
from headwater.documents.answers import HyperStorageTransaction, ShownDocumentChange, TransactionListing
from headwater.documents.decisions import not_found
from headwater.documents.etag import condition_of
from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent
from headwater.documents.feed_position import FeedPosition
from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.history import DocumentHistory, PastState
from headwater.documents.live import LiveQueries
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import ResourcePath
from headwater.documents.prefix_feed import PlacedFeedEvent, PrefixFeeds
from headwater.documents.requests import HyperStorageContentGet
from headwater.documents.since import changed_since
from headwater.documents.transactions import (
    TransactionStatus,
    latest_transactions,
    pending_transactions,
    transaction_status,
    transactions_of,
)
from headwater.wire import json
from headwater.wire.operation import Reply
from headwater.wire.times import show_time

_AGAIN = 0.02  # seconds between two looks at how far a store is
Followed = FeedEvent | PlacedFeedEvent


class DocumentChanges:
    """Changes of the documents that `opened` gives. Belongs to one event loop."""

    def __init__(self, opened: Callable[[], Awaitable[OpenDocuments]], *, clock: Clock, query_seconds: float) -> None:
        """`query_seconds`: how long the filter of a live query may take for one portion of events."""
        self._opened, self._clock, self._query_seconds = opened, clock, query_seconds
        self._feeds: DocumentFeeds | None = None
        self._live: LiveQueries | None = None

    async def aclose(self) -> None:
        """End the followers. Closing twice is no error."""
        feeds, self._feeds, self._live = self._feeds, None, None
        if feeds is not None:
            await feeds.aclose()

    # -- feeds ------------------------------------------------------------------------------------------------

    async def changes(self, request: follow_requests.PollContent) -> AsyncIterator[ShownDocumentChange]:
        """The changes that a feed gives, for ever."""
        async for portion in await self._follow(request):
            for event in portion:
                yield _shown(event)

    async def frames(self, request: follow_requests.PollContent) -> AsyncGenerator[bytes]:
        """The same as server-sent events. Errors of the request are raised before the first."""
        return _frames(await self._follow(request))

    async def feed_lines(self, request: follow_requests.PollContent) -> bytes:
        """Changes behind a position, one a line. Waits for one as long as the request says."""
        if request.filter is not None or request.snapped:
            mode = "live query" if request.filter is not None else "snapshot"
            raise BadInput(f"A poll gives changes as they are, and no {mode}.", hint="Ask with Accept: text/event-stream.")
        if request.position is None:
            hint = (
                "Add ?after=POSITION, of an event that was followed."
                if request.is_prefix
                else "Add ?after=REVISION; 0 is before the first."
            )
            raise BadInput("A poll goes on behind a change, and none is named.", hint=hint)
        feeds = await self._feeds_of()
        if request.is_prefix:
            return await self._prefix_lines(feeds, request)
        events = await feeds.poll(request.resource, _revision(request.position), wait=request.waits())
        return b"".join(event.json() + b"\n" for event in events[: request.limit])

    async def _prefix_lines(self, feeds: DocumentFeeds, request: follow_requests.PollContent) -> bytes:
        assert request.position is not None
        portion = await PrefixFeeds(feeds).poll(_prefix(request), request.position, wait=request.waits())
        return b"".join(event.json() + b"\n" for event in portion[: request.limit])

    async def _follow(self, request: follow_requests.PollContent) -> AsyncGenerator[list[Followed]]:
        feeds = await self._feeds_of()
        if request.is_prefix:
            if request.filter is not None:
                raise BadInput("A filter is of one collection, and this feed is of many.", hint="Follow a path that ends with ~.")
            if request.position is not None:
                FeedPosition.read(request.position)  # its mistake is an answer, not a stream
            below = PrefixFeeds(feeds)
            # A client that is told of its stream counts on every change from then on.
            position = await below.now() if request.position is None and not request.snapped else request.position
            return below.follow(_prefix(request), after=position, snapshot=request.snapped)  # type: ignore[return-value]
        after = None if request.position is None else _revision(request.position)
        if request.filter is not None:
            compile_filter(request.filter)  # its mistake is an answer, not a stream
            return self._live_of(feeds).follow(request.resource, request.filter, after=after)  # type: ignore[return-value]
        if after is None and not request.snapped:
            after = await feeds.now(request.resource)
        return feeds.follow(request.resource, after=after, snapshot=request.snapped)  # type: ignore[return-value]

    async def _feeds_of(self) -> DocumentFeeds:
        documents = await self._opened()
        await documents.create()
        return self.feeds(documents)

    def feeds(self, documents: OpenDocuments) -> DocumentFeeds:
        """The feeds of this process. The topic is there."""
        if self._feeds is None:
            assert documents.topic is not None
            self._feeds = DocumentFeeds(documents.log, documents.topic, documents.partition_view, self._clock)
        return self._feeds

    def _live_of(self, feeds: DocumentFeeds) -> LiveQueries:
        if self._live is None:
            self._live = LiveQueries(feeds, clock=self._clock, seconds=self._query_seconds)
        return self._live

    # -- history ----------------------------------------------------------------------------------------------

    async def history(self, request: follow_requests.ReadHistory) -> answers.ContentHistory:
        past, path = await self._history_of(request.resource), request.resource
        page = await asyncio.to_thread(lambda: past.changes(path, after=request.after or 0, limit=request.limit, reverse=request.reverse))
        return answers.ContentHistory([_shown(event) for event in page.events], None if page.next is None else str(page.next))

    async def restore(self, request: follow_requests.RestoreContent) -> Reply[answers.HyperStorageTransactionCreated]:
        past, path = await self._history_of(request.resource), request.resource
        draft = await asyncio.to_thread(past.restored, path, request.revision, condition_of(request.if_match, None))
        documents = await self._opened()
        if request.dry_run:
            head, row = await documents.read(path)
            shown = answers.HyperStorageTransactionCreated(
                transaction="", path=path.text, revision=0 if head is None else head.revision, created=row is None, state="accepted"
            )
            return Reply(shown, 200)
        return answers.show_written(await documents.write(draft))

    async def earlier(self, request: HyperStorageContentGet) -> Reply[answers.StoredContent]:
        """A document or item as it was, or what has changed since. Errors: `DocumentNotFound`, `OffsetGone`, `BadInput`."""
        path = request.resource
        if request.since is not None:
            feeds = await self._existing_feeds(path)
            documents = await self._opened()
            head, _ = await documents.read(ResourcePath(path.uri))
            if head is None:
                raise not_found(path)
            changes = await asyncio.to_thread(changed_since, feeds.history_of(path.uri), path, request.since)
            return answered(request, path, json.encode(changes), tag=changes.revision, revision=changes.revision)
        past = await self._history_of(path)

        def look() -> PastState:
            if request.revision is not None:
                return past.at_revision(path, request.revision)
            assert request.at is not None
            return past.at_time(path, request.at)

        was = await asyncio.to_thread(look)
        return answered(request, path, was.body, tag=was.revision, revision=was.revision)

    async def _history_of(self, path: ResourcePath) -> DocumentHistory:
        feeds = await self._existing_feeds(path)
        return DocumentHistory(feeds.history_of)

    async def _existing_feeds(self, path: ResourcePath) -> DocumentFeeds:
        """Errors: `DocumentNotFound` where nothing was ever written."""
        if (await self._opened()).topic is None:
            raise not_found(path)
        return await self._feeds_of()

    # -- transactions -----------------------------------------------------------------------------------------

    async def transactions(self, request: follow_requests.ListTransactions) -> TransactionListing:
        documents = await self._opened()

        def find() -> list[TransactionStatus]:
            if request.path is not None:
                return transactions_of(documents, request.uri, limit=request.limit)
            if request.pending:
                return pending_transactions(documents, limit=request.limit)
            return latest_transactions(documents, limit=request.limit)

        statuses = await asyncio.to_thread(find)
        return TransactionListing(
            [shown_transaction(status) for status in statuses if request.state is None or request.pending != status.applied]
        )

    async def transaction(self, request: follow_requests.FindTransaction) -> HyperStorageTransaction:
        documents = await self._opened()
        status = await asyncio.to_thread(transaction_status, documents, request.transaction)
        if status.state == "accepted" and request.waits():
            await self.wait_applied(status.partition, status.offset, request.waits())
            status = await asyncio.to_thread(transaction_status, documents, request.transaction)
        return shown_transaction(status)

    async def wait_applied(self, partition: int, offset: int, seconds: float) -> None:
        """Wait until the store has the record at an offset, or the time is over."""
        documents = await self._opened()
        try:
            async with self._clock.timeout(seconds):
                while await asyncio.to_thread(documents.applied, partition) <= offset:
                    await self._clock.sleep(_AGAIN)
        except TimeoutError:
            return


def _revision(position: str) -> int:
    if not position.isdecimal() or len(position) > 18:
        raise BadInput(f"{position!r:.60} is no revision.", hint="Give the revision of the last change that was seen, or 0.")
    return int(position)


def _prefix(request: follow_requests.PollContent) -> str:
    return "" if request.path == "/" else request.path


async def _frames(portions: AsyncGenerator[list[Followed]]) -> AsyncGenerator[bytes]:
    try:
        async for portion in portions:
            yield b"".join(event.sse() for event in portion)
    finally:
        await portions.aclose()


def _shown(event: Followed) -> ShownDocumentChange:
    change = event if isinstance(event, FeedEvent) else event.event
    return ShownDocumentChange(
        method=change.name,  # type: ignore[arg-type]
        path=change.path,
        revision=change.revision,
        time=show_time(change.time or None),
        body=msgspec.Raw(change.body) if change.body else msgspec.UNSET,
        position=event.position,
    )


def shown_transaction(status: TransactionStatus) -> HyperStorageTransaction:
    state: answers.TransactionState = "published" if status.published and status.indexed else "accepted"
    return HyperStorageTransaction(
        transaction=status.id,
        path=status.path,
        revision=status.revision,
        state=state,
        method=status.method,
        partition=status.partition,
        offset=status.offset,
        time=show_time(status.time or None),
    )
