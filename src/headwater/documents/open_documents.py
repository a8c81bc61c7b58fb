"""The documents of one log: written by the owner of their partition, read by everybody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from headwater.cluster import Ownership
from headwater.core.clock import Clock
from headwater.core.errors import Busy, Closed, HeadwaterError, NotOwner, UnknownTopic
from headwater.core.ids import Ids, random_id
from headwater.documents.aftercare import Aftercare
from headwater.documents.base import DocumentBases
from headwater.documents.calls import PartitionCall, RedriveCall
from headwater.documents.change import ChangeRecord
from headwater.documents.commit import Request
from headwater.documents.draft_body import read_batch, read_draft
from headwater.documents.homes import PartitionHomes, RemoteHome
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.partition import DocumentPartition, PartitionLimits
from headwater.documents.partition_place import PartitionPlace
from headwater.documents.partition_reads import NOTHING, PartitionReads
from headwater.documents.partition_status import PartitionStanding, status_of
from headwater.documents.path import ResourcePath, partition_of
from headwater.documents.settings import DocumentSettings
from headwater.documents.store import DocumentHead, DocumentRow, DocumentStores, DocumentView, StoredPoint
from headwater.documents.write import BatchDraft, Draft, WrittenDocument
from headwater.documents.write_notices import tell_of_beginning
from headwater.log import Log
from headwater.log.record import Topic

TOPIC = "hyper-storage"
PART = "documents"
LARGE = 65_536  # bytes of a body that is read in a thread, so that the loop goes on meanwhile


class OpenDocuments:
    """Belongs to one event loop.

    Guarantees: a write that is answered is durable, and every later read in any process sees it. Reading owns nothing and creates nothing.
    A partition is taken when it is first written to: that of a dead owner at once; while another owner lives, the write is `NotOwner` with
    its address. What another process takes over is let go with the first `NotOwner`, and tried again by the next write.
    """

    def __init__(
        self,
        log: Log,
        stores: DocumentStores,
        owners: Callable[[], Ownership],
        *,
        settings: DocumentSettings,
        clock: Clock,
        ids: Ids = random_id,
        metrics: DocumentMetrics | None = None,
        bases: DocumentBases | None = None,
        quick: bool = False,
        topic: str = TOPIC,
    ) -> None:
        """`owners`: gives the ownership, and is called in a thread. `bases`: copies to which the log may be shortened. `quick`: log and
        store answer point reads without a wait, so that they are made in the loop. `topic`: its name, for tests that share brokers."""
        self.log, self.settings, self.clock, self.metrics = log, settings, clock, metrics or DocumentMetrics()
        self.stores, self.bases, self._owners, self._ids, self._quick = stores, bases, owners, ids, quick
        self.topic_name = topic
        self._topic: Topic | None = None
        self._places: list[PartitionPlace] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._found = threading.Lock()
        self._creating: asyncio.Task[Topic] | None = None
        self._closed = False
        self.activated: list[Callable[[int], None]] = []
        """Told of each partition that this process has taken."""
        self.homes: PartitionHomes | None = None
        """Set where the workers of a server share the partitions: what belongs to another one is written there."""
        self._aftercare = Aftercare(self, self._called, self._task)
        self.expiring = self._aftercare.expiring
        """Told of each write with a time to live: its partition, and the date in ms."""
        self.dropping = self._aftercare.dropping
        """Told of each index that is being deleted: its partition, collection and number."""
        self.beginning: list[Callable[[str], None]] = []
        """Told of each collection that begins."""

    # -- the topic --------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more may be asked of it."""
        return self._closed

    @property
    def topic(self) -> Topic | None:
        """The topic; None where nothing was ever written. Errors: `Differs` where its log is missing."""
        if self._topic is None:
            try:
                self._use(self.log.topic(self.topic_name))
            except UnknownTopic:
                self.stores.check_unused(self.topic_name)
                return None
        return self._topic

    async def create(self) -> Topic:
        """The topic, which is created where there is none."""
        self._check()
        if self._topic is None:
            if self._creating is None or self._creating.done():
                self._creating = self._task(asyncio.to_thread(self._created))
            self._use(await asyncio.shield(self._creating))
        assert self._topic is not None
        return self._topic

    def _created(self) -> Topic:
        if (topic := self.topic) is not None:
            return topic
        count = self.settings.partitions or (2 if self.log.engine == "embedded" else 8)
        return self.log.create_topic(self.topic_name, partitions=count, part=PART)

    def _use(self, topic: Topic) -> None:
        with self._found:  # readers in threads look for the topic, too
            if self._topic is None:
                self._places = [PartitionPlace(PartitionReads(self.log, self.stores, topic, number)) for number in range(topic.partitions)]
                self._topic = topic

    @property
    def partitions(self) -> int:
        """How many there are; 0 before the topic is created."""
        return 0 if self.topic is None else len(self._places)

    def partition_of(self, uri: str) -> int:
        """The partition of a document or collection. The topic is there."""
        return partition_of(uri, len(self._places) or self.partitions)

    # -- writing ----------------------------------------------------------------------------------------------

    async def write(self, draft: Draft) -> WrittenDocument:
        """Write. Errors: those of `read_draft` and of `DocumentPartition`."""
        if self.homes is not None and (home := await self._elsewhere(draft.path.uri)) is not None:
            return await home.write(draft)
        limit = int(self.settings.max_body)
        large = len(draft.body) >= LARGE
        read = await asyncio.to_thread(read_draft, draft, limit=limit) if large else read_draft(draft, limit=limit)
        written: WrittenDocument = await self._aftercare.called(draft.path.uri, read, draft.ttl, ends=draft.ends_collection)
        tell_of_beginning(self, written)
        return written

    async def write_batch(self, batch: BatchDraft) -> tuple[WrittenDocument, ...]:
        """Write several drafts to one document or collection, or none. Errors: as `write`; they name the draft."""
        if self.homes is not None and (home := await self._elsewhere(batch.uri)) is not None:
            return await home.write_batch(batch)
        read = await asyncio.to_thread(read_batch, batch, limit=int(self.settings.max_body))
        ttl = min([draft.ttl for draft in batch.drafts if draft.ttl is not None], default=None)
        written: tuple[WrittenDocument, ...] = await self._aftercare.called(batch.uri, read, ttl, ends=batch.drafts[0].ends_collection)
        tell_of_beginning(self, *written)
        return written

    def other(self, number: int) -> RemoteHome | None:
        """The worker that owns a partition; None where that is this one, or where there are no others."""
        return None if self.homes is None else self.homes.other(number)

    async def _elsewhere(self, uri: str) -> RemoteHome | None:
        if self._topic is None:
            await self.create()
        return self.other(self.partition_of(uri))

    async def change(self, uri: str, call: PartitionCall) -> ChangeRecord | WrittenDocument | int | None:
        """Make another call of the partition of a document or collection; None: it changed nothing. Errors: as `write`."""
        changed = cast("ChangeRecord | WrittenDocument | int | None", await self._called(uri, call))
        if isinstance(changed, ChangeRecord) and changed.index is not None and changed.index.state == "deleting":
            await self._aftercare.ended(uri)
        return changed

    async def call_partition(self, number: int, call: PartitionCall) -> ChangeRecord | WrittenDocument | int | None:
        """As `change`, for a partition that this process has taken. Errors: also `NotOwner` where it has not."""
        partition = self._places[number].partition if number < self.partitions else None
        if partition is None:
            raise NotOwner(f"This process does not own {self.topic_name}/{number}.", hint="Ask its owner.")
        return cast("ChangeRecord | WrittenDocument | int | None", await partition.call(call))

    async def _called(self, uri: str, request: Request) -> Any:
        if self._topic is None:  # asking the log for it is not for the loop
            await self.create()
        self._check()
        place = self._places[self.partition_of(uri)]
        partition = place.partition
        began = self.clock.monotonic()
        try:
            if partition is None:
                partition = await self._stashed(place)
            try:
                answer = await partition.call(request)
            except Closed:  # it was released between: nothing was done
                if self._closed or place.partition is partition:
                    raise
                answer = await (place.partition or await self._stashed(place)).call(request)
        except HeadwaterError as error:
            self.metrics.refused(error)
            raise
        self.metrics.accepted(self.clock.monotonic() - began)
        return answer

    async def _stashed(self, place: PartitionPlace) -> DocumentPartition:
        """Wait until the partition is taken."""
        if place.stashed >= self.settings.max_stash:
            raise Busy(f"{place.stashed} writes wait for {self.topic_name}/{place.reads.number}.", hint="Ask again in a moment.")
        place.stashed += 1
        self.metrics.stashed.add()
        try:
            return await self._activate(place)
        finally:
            place.stashed -= 1

    # -- owning -----------------------------------------------------------------------------------------------

    async def activate(self, number: int, *, take_over: bool = False) -> None:
        """Take a partition. `take_over`: also where a living process owns it. Errors: `NotOwner`; those of the log and the store."""
        await self.create()
        await self._activate(self._places[number], take_over=take_over)

    async def rebuild(self, number: int) -> None:
        """Take a partition, whatever its store has, and fold the store anew from the log. Errors: as `activate`, and `LogGap`."""
        await self.create()
        place = self._places[number]
        if (home := self.other(number)) is not None:
            await home.rebuild(number)
        elif place.partition is None:
            await asyncio.shield(self._task(self._activated(place, take_over=False, anew=True)))
        else:
            await self.call_partition(number, RedriveCall(rebuild=True))

    async def _activate(self, place: PartitionPlace, *, take_over: bool = False) -> DocumentPartition:
        # In a task of its own: a caller that gives up must not leave a partition behind that nobody knows to be owned. One task serves all
        # that wait, so that they go on in the order in which they came.
        if place.opening is None or place.opening.done() or take_over:
            place.opening = self._task(self._activated(place, take_over=take_over))
        return await asyncio.shield(place.opening)

    async def _activated(self, place: PartitionPlace, *, take_over: bool, anew: bool = False) -> DocumentPartition:
        async with place.gate:
            if place.partition is not None:
                if anew:  # another task has taken it meanwhile
                    await place.partition.call(RedriveCall(rebuild=True))
                return place.partition
            self._check()
            if self.other(place.reads.number) is not None:
                raise NotOwner(f"{self.topic_name}/{place.reads.number} belongs to another worker of this server.", hint="Ask there.")
            place.state = "Activating"
            try:
                partition = await self._taken(place, take_over=take_over, anew=anew)
            except BaseException:
                place.state = "Passive"
                raise
            place.partition, place.state = partition, "Active"
        for callback in self.activated:
            callback(place.reads.number)
        return partition

    async def _taken(self, place: PartitionPlace, *, take_over: bool, anew: bool) -> DocumentPartition:
        reads = place.reads
        owners = await asyncio.to_thread(self._owners)
        owned = await asyncio.to_thread(owners.own, self.topic_name, reads.number, take_over=take_over, part=PART)
        if not owned.use():  # two writers of one process would number on their own, and write as one owner
            raise NotOwner(f"{self.topic_name}/{reads.number} is open in this process already.", hint="Use the documents that are open.")
        try:
            store = await asyncio.to_thread(lambda: reads.store)
        except BaseException:
            await asyncio.to_thread(owned.release)
            raise
        partition = DocumentPartition(
            self.log,
            owned,
            store,
            reads=reads,
            clock=self.clock,
            ids=self._ids,
            limits=PartitionLimits(reads.topic.settings.max_record, self.settings.max_backlog),
            bases=self.bases,
            owner=lambda: owners.owner(self.topic_name, reads.number),
            lost=self._lost,
        )
        try:
            await asyncio.to_thread(partition.catch_up, anew=anew)
        except BaseException:
            await partition.aclose()
            raise
        return partition

    def _lost(self, partition: DocumentPartition) -> None:
        place = self._places[partition.number]
        if place.partition is partition:
            place.partition, place.state = None, "Passive"
            self._task(partition.aclose())

    async def release(self, number: int) -> bool:
        """Finish the writes under way, and let another process own a partition; return whether this one did."""
        if self.topic is None:
            return False
        place = self._places[number]
        async with place.gate:
            partition = place.partition
            if partition is None:
                return False
            place.partition, place.state = None, "Deactivating"
            try:
                await partition.aclose()
            finally:
                place.state = "Passive"
            return True

    async def aclose(self) -> None:
        """Finish the writes under way, and release everything. Closing twice is no error."""
        self._closed = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for place in self._places:
            await self.release(place.reads.number)

    # -- reading ----------------------------------------------------------------------------------------------

    async def read(self, path: ResourcePath) -> tuple[DocumentHead | None, DocumentRow | None]:
        """The head of a document or collection, and the document or item; None: it is not there. A collection has no row."""
        return self._point(path) if self._quick else await asyncio.to_thread(self._point, path)

    def _point(self, path: ResourcePath) -> tuple[DocumentHead | None, DocumentRow | None]:
        with self.view(path.uri) as view:
            head = view.head(path.uri)
            return head, None if head is None or path.is_collection else view.row(path.uri, path.item)

    def point(self, path: ResourcePath) -> StoredPoint:
        """A document or item as of the end of the log, at the least cost. Blocking, in any thread. Errors: as `view`."""
        self._check()
        if self.topic is None:
            return StoredPoint(0, 0, None)
        return self._places[self.partition_of(path.uri)].reads.point(path.uri, path.item)

    @contextmanager
    def view(self, uri: str) -> Iterator[DocumentView]:
        """What is to be seen of one document or collection, as of the end of the log. Blocking, in any thread."""
        self._check()
        if self.topic is None:
            yield NOTHING
            return
        with self._places[self.partition_of(uri)].reads.view(uri) as view:
            yield view

    @contextmanager
    def partition_view(self, number: int) -> Iterator[DocumentView]:
        """A whole partition, as of the end of its log. Blocking, in any thread."""
        self._check()
        with self.reads(number).view() as view:
            yield view

    def reads(self, number: int) -> PartitionReads:
        """What everybody may see of a partition. The topic is there."""
        assert self.topic is not None
        return self._places[number].reads

    def end(self, number: int) -> int:
        """The durable end of a partition."""
        return self.reads(number).end()

    def applied(self, number: int) -> int:
        """How far the store of a partition is."""
        return self.reads(number).applied()

    # -- looking ----------------------------------------------------------------------------------------------

    def owned(self) -> list[int]:
        """The partitions that this process has taken."""
        return [place.reads.number for place in self._places if place.partition is not None]

    def opened(self, number: int) -> DocumentPartition | None:
        """The writer of a partition, where this process has taken it."""
        return self._places[number].partition if number < len(self._places) else None

    def status(self) -> list[PartitionStanding]:
        """Every partition that is not another worker's; none before the topic is created. Blocking."""
        self._check()
        places = () if self.topic is None else self._places
        return [self._standing(place) for place in places if self.other(place.reads.number) is None]

    async def standing(self, number: int) -> PartitionStanding:
        """A partition as its worker sees it. Errors: those of the log and the store; `Unavailable` where that cannot be asked."""
        home = self.other(number)
        return await (asyncio.to_thread(self._standing, self._places[number]) if home is None else home.standing(number))

    @staticmethod
    def _standing(place: PartitionPlace) -> PartitionStanding:
        return status_of(place.state, place.reads, place.partition, place.stashed)

    def _task(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda late: late.cancelled() or late.exception())  # its callers may have given up
        return cast("asyncio.Task[Any]", task)

    def _check(self) -> None:
        if self._closed:
            raise Closed("The documents have been closed.", hint="Open them again.")
