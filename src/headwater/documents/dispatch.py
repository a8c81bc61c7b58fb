"""Reads the new records of a partition once, and gives their events to every follower in this process."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from headwater.core.errors import Closed, HeadwaterError, OffsetGone, Unavailable
from headwater.documents.change import decode_record
from headwater.documents.epoch_before import epoch_at_end
from headwater.documents.feed_event import FeedEvent, of_item, record_events
from headwater.log import Log, Watching
from headwater.log.record import Record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from headwater.log.epochs import Epochs

_logger = logging.getLogger("headwater.documents")
MOST_WAITING = 256  # events in a follower's queue
MOST_BYTES = 1 << 20  # bytes of events in a follower's queue, unless a single event is larger
_SMALL = 100  # records: reading so few takes less time than a thread's wake-up
_READ = 1000
_SMALL_BYTES = 1 << 20
_READ_BYTES = 8 << 20


class FeedTarget(NamedTuple):
    """What a follower wants to hear of: a document or a whole collection, one item of it, or all below a prefix that ends with a slash
    (or is empty)."""

    uri: str
    item: str = ""
    below: bool = False


class Subscription:
    """A follower's queue. It never grows above its limits: a follower that is too slow loses the queue, and reads the log again."""

    __slots__ = ("_error", "_events", "_size", "_waiter", "behind")

    def __init__(self) -> None:
        self.behind = False
        self._events: deque[FeedEvent] | None = None
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return len(self._events or ())

    @property
    def failed(self) -> bool:
        """Whether it ends with an error behind what waits: nothing that was read since is in it."""
        return self._error is not None

    def offer(self, events: Sequence[FeedEvent]) -> None:
        """Add events, or be behind."""
        if self.behind or self._error is not None:
            return
        if self._events is None:
            self._events = deque()
        self._size += sum(event.size for event in events)
        self._events.extend(events)
        if len(self._events) > MOST_WAITING or (self._size > MOST_BYTES and len(self._events) > 1):
            self.fall_behind()
        self._wake()

    def fall_behind(self) -> None:
        """Give up the queue: `take` returns None."""
        self.behind, self._events, self._size = True, None, 0
        self._wake()

    def fail(self, error: Exception) -> None:
        """End the follower with an error, after what waits."""
        self._error = error
        self._wake()

    async def take(self) -> list[FeedEvent] | None:
        """All events that wait, at least one; None once it is behind. Errors: those of reading the log."""
        while not self._events and not self.behind:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.behind:
            return None
        events = list(self._events or ())
        self._events, self._size = None, 0  # an idle follower keeps no queue
        return events

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PartitionDispatch:
    """The followers of one partition in this process. Belongs to one event loop.

    It reads while it has followers, from the first one's entry on. A record is decoded once, if anybody follows its document, and all
    followers get the same events.
    """

    def __init__(self, log: Log, topic: str, partition: int) -> None:
        self._log, self._topic, self.partition = log, topic, partition
        self._documents: dict[str, set[Subscription]] = {}
        self._items: dict[str, dict[str, set[Subscription]]] = {}
        self._prefixes: dict[str, set[Subscription]] = {}
        self._joining = 0
        self._run: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._moved = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.next = 0
        """The offset from which on a new follower gets events."""

    @property
    def followers(self) -> int:
        """How many followers get events."""
        return sum(1 for _ in self._everybody())

    @asynccontextmanager
    async def joined(self, target: FeedTarget, subscription: Subscription) -> AsyncGenerator[int]:
        """Have the target's events added to a queue; the offset from which on it gets them all. Errors: those of reading the log."""
        self._joining += 1
        try:
            await self._start()
            places = self._place(target)
            places.add(subscription)
            try:
                yield self.next
            finally:
                places.discard(subscription)
                if not places:
                    self._forget(target, places)
        finally:
            self._joining -= 1
            if not self._joining:
                await self._stop()

    async def aclose(self) -> None:
        """End all followers with `Closed`."""
        self._fail(_closed())
        await self._stop()

    # -- the followers ----------------------------------------------------------------------------------------

    def _place(self, target: FeedTarget) -> set[Subscription]:
        if target.below:
            return self._prefixes.setdefault(target.uri, set())
        if target.item:
            return self._items.setdefault(target.uri, {}).setdefault(target.item, set())
        return self._documents.setdefault(target.uri, set())

    def _forget(self, target: FeedTarget, places: set[Subscription]) -> None:
        """Remove an empty set, unless another has taken its place."""
        named = self._prefixes if target.below else self._items.get(target.uri, {}) if target.item else self._documents
        name = target.item or target.uri if not target.below else target.uri
        if named.get(name) is places:
            del named[name]
        if target.item and not self._items.get(target.uri, True):
            del self._items[target.uri]

    def _everybody(self) -> Iterator[Subscription]:
        for named in (self._documents, self._prefixes, *self._items.values()):
            for places in list(named.values()):
                yield from list(places)

    def _fail(self, error: Exception) -> None:
        for subscription in self._everybody():
            subscription.fail(error)

    # -- reading ----------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        if self._run is None or self._run.done():
            self._started = self._loop.create_future()
            self._run = self._loop.create_task(self._read(self._started))
        assert self._started is not None, "it is made with the task"
        await asyncio.shield(self._started)

    async def _stop(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.cancel()
            with suppress(asyncio.CancelledError):
                await run

    async def _read(self, started: asyncio.Future[None]) -> None:
        """Read for ever. An error goes to all followers; the next one to come begins anew."""
        watching: Watching | None = None
        try:
            watching = await asyncio.to_thread(self._log.watch, self._topic, self.partition, self._changed)
            epochs, self.next = await asyncio.to_thread(epoch_at_end, self._log, self._topic, self.partition)
            started.set_result(None)
            while True:
                self._moved.clear()  # before the look at the end: a later change sets it
                end = watching.end()
                while self.next < end:
                    await self._read_on(end, epochs)
                await self._moved.wait()
        except Exception as error:
            failure = error
            if not isinstance(error, HeadwaterError):  # a fault of ours, or of the machine: nobody must wait for it for ever
                _logger.exception("The feeds of %s/%s have ended.", self._topic, self.partition)
                failure = Unavailable(
                    f"The log was not read on: {type(error).__name__}: {error}.", hint="Follow again from where you were."
                )
            if not started.done():
                started.set_exception(failure)
            self._fail(failure)
        finally:
            if not started.done():  # whoever waits for the start is told; nobody has to
                started.set_exception(_closed())
                started.exception()
            if watching is not None:
                watching.close()

    async def _read_on(self, end: int, epochs: Epochs) -> None:
        try:
            records = await self._records(end)
        except OffsetGone:  # deleted before it was read: what each follower has missed, it finds out by itself
            self.next = (await asyncio.to_thread(self._log.bounds, self._topic, self.partition)).start
            for subscription in self._everybody():
                subscription.fall_behind()
            return
        for record in records:
            if epochs.admits(record):
                self._give(record)
        self.next = (records[-1].offset or 0) + 1 if records else end  # none between: brokers' own, or compacted away
        await asyncio.sleep(0)  # followers take what they got before more comes

    async def _records(self, end: int) -> list[Record]:
        if self._log.engine == "embedded" and end - self.next <= _SMALL:
            return self._log.read(self._topic, self.partition, self.next, limit=_SMALL, max_bytes=_SMALL_BYTES)
        return await asyncio.to_thread(self._log.read, self._topic, self.partition, self.next, limit=_READ, max_bytes=_READ_BYTES)

    def _give(self, record: Record) -> None:
        """Give a record's events to those who follow its document."""
        uri = (record.key or b"").decode(errors="replace")
        subscriptions = [*self._documents.get(uri, ())]
        if self._prefixes:
            subscriptions += [subscription for prefix in prefixes_of(uri) for subscription in self._prefixes.get(prefix, ())]
        items = self._items.get(uri)
        if not subscriptions and not items:
            return
        try:
            events = read_events(record, self._topic, self.partition)
        except HeadwaterError as error:
            for subscription in (*subscriptions, *(item_subscription for places in (items or {}).values() for item_subscription in places)):
                subscription.fail(error)
            return
        if not events:
            return
        for subscription in subscriptions:
            subscription.offer(events)
        if items:
            everything = any(not event.item and event.method == "delete" for event in events)
            for item in items if everything else {event.item for event in events} & items.keys():
                own = of_item(events, item)
                for subscription in items[item]:
                    subscription.offer(own)

    def _changed(self) -> None:
        """Called by the log's thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody follows any more
            self._loop.call_soon_threadsafe(self._moved.set)


def _closed() -> Closed:
    return Closed("The feeds of documents are closed.", hint="Open them again.")


def read_events(record: Record, topic: str, partition: int) -> list[FeedEvent]:
    """The events of a record of the log. Errors: `Damaged`."""
    offset = record.offset or 0
    read = decode_record(record.value, f"{topic}/{partition}, offset {offset}")
    return record_events(read, time=record.timestamp or 0, partition=partition, offset=offset)


def prefixes_of(uri: str) -> Iterable[str]:
    """The prefixes below which a document or collection lies, from the empty one on."""
    yield ""
    at = uri.find("/")
    while at >= 0:
        yield uri[: at + 1]
        at = uri.find("/", at + 1)
