"""Performs the operations on journals in this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from heapq import merge
from typing import Any

import msgspec

from headwater.client.journal_care import JournalCare
from headwater.client.journal_follow import follow
from headwater.client.journal_topics import OpenTopics, written_by
from headwater.client.local import LocalLog
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, Fenced, HeadwaterError, NotFound, UnknownTopic
from headwater.core.ids import Ids, random_id
from headwater.core.settings import Settings
from headwater.journal import answers, operations, requests
from headwater.journal.append_draft import AppendDraft, PlainDraft
from headwater.journal.bodies import draft_of
from headwater.journal.care_operations import CARE
from headwater.journal.change import EventRow, Pointer
from headwater.journal.head import Head
from headwater.journal.idempotency import check_key
from headwater.journal.ids import journal_ids
from headwater.journal.names import check_id
from headwater.journal.open_topic import OpenTopic
from headwater.journal.partition import JournalPartition
from headwater.journal.read import PAGE, JournalRead
from headwater.journal.requests import JournalRequest, JournalsRequest, check_expected
from headwater.journal.shown import show_event, show_followed, show_head
from headwater.journal.topics import Writers
from headwater.journal.trail import trail
from headwater.journal.write import ALWAYS, ActionPlaced, Appended, Condition, DeleteDraft, Draft, MarkDraft, Outcome, PurgeDraft
from headwater.log.record import Topic
from headwater.wire import json
from headwater.wire.operation import Operation, Reply
from headwater.wire.problems import encoded, problem_of
from headwater.wire.times import show_time

_audit = logging.getLogger("headwater.audit")
_FREQUENT = {operations.APPEND, operations.APPEND_MANY, operations.MARK}
Rows = list[EventRow]
Texts = list[str]
Outcomes = list[Appended | HeadwaterError]
Drafted = tuple[PlainDraft | AppendDraft, Condition] | HeadwaterError
"""An Append of many, or why it can be none."""
_SMALL = 100  # events: reading so few takes less time than a thread's wake-up
REOPENS = (Fenced, UnknownTopic, Closed)
"""Errors of a topic that is to be opened anew."""
_AT_ONCE = 256  # Appends of one bulk that wait at once


async def closes(performer: JournalPerformer, log: object) -> None:
    """Finish the calls under way."""
    await performer.aclose()


class JournalPerformer:
    """One method for each operation of the same name. Belongs to one event loop."""

    def __init__(
        self,
        *,
        log: LocalLog,
        clock: Clock | None = None,
        settings: Settings | None = None,
        address: str = "",
        ids: Ids = random_id,
    ) -> None:
        self._log, self._ids = log, ids
        self.by = written_by()
        """The origin and the version that records name."""
        clock, settings = clock or SystemClock(), settings or Settings()
        self.settings = settings
        """Those of this process."""
        self.topics_open = OpenTopics(log, clock=clock, settings=settings, by=self.by, address=address)
        self._care = JournalCare(self.topics_open, clock=clock, settings=settings)

    # -- how it runs ------------------------------------------------------------------------------------------

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str = "") -> Any:
        if operation in CARE:
            answer = await self._care.perform(operation, request, who)
        else:
            answer = await getattr(self, operation.name)(request)
        if operation.changes and operation not in _FREQUENT and not getattr(request, "dry_run", False):
            _audit.info("%s: %s %s", who or "this process", operation.id, msgspec.structs.asdict(request))
        return answer

    async def stream(self, operation: Operation[Any, Any], request: Any) -> AsyncIterator[Any]:
        if operation is operations.FOLLOW:
            async for id, row, position in self.followed(request):
                yield show_followed(row, id, str(position))
        elif operation is operations.ID_LINES:
            after = request.after
            while page := await self._ids_of(request, after, request.limit):
                for id in page:
                    yield id
                after = page[-1]
        else:
            async for rows in self.pages(request):
                for row in rows:
                    yield show_event(row)

    async def aclose(self) -> None:
        """Finish the calls under way. Closing twice is no error."""
        await self.topics_open.aclose()

    # -- topics -----------------------------------------------------------------------------------------------

    async def list(self, request: requests.ListJournals) -> Sequence[answers.ShownJournals]:
        return await self.topics_open.work(lambda topics: [_shown_topic(topic, topics.writers(topic)) for topic in topics.list()])

    async def create(self, request: requests.CreateJournals) -> Reply[answers.ShownJournals]:
        if request.dry_run:
            shown = await self.topics_open.work(lambda topics: _would_create(topics.name(request.topic), topics.list(), request))
            return Reply(shown, 200)
        topic, new, writers = await self.topics_open.work(
            lambda topics: (made := topics.create(request.topic, request.partitions), (*made, topics.writers(made[0])))[1]
        )
        return Reply(msgspec.structs.replace(_shown_topic(topic, writers), created=new), 201 if new else 200)

    async def ids(self, request: requests.LookAtJournals) -> answers.TopicPage:
        if request.view == "status":
            return answers.TopicPage(status=await self.status(request))
        if request.view == "pointers":
            return answers.TopicPage(pointers=list(await self.pointers(request)))
        found = await self._ids_of(request, request.after, request.limit + 1)
        shown = found[: request.limit]
        return answers.TopicPage(items=shown, next=shown[-1] if len(found) > request.limit else None)

    async def _ids_of(self, request: JournalsRequest, after: str | None, limit: int) -> Texts:
        return await self.topics_open.reading(request.topic, lambda topic: _ids(topic, after, limit))

    async def status(self, request: JournalsRequest) -> answers.TopicStatus:
        """A topic and its partitions."""
        engine = self.topics_open.store_engine
        return await self.topics_open.reading(request.topic, lambda topic: _status(topic, engine))

    async def pointers(self, request: JournalsRequest) -> Sequence[answers.ShownPointer]:
        """How far each partition of a topic is copied."""
        return await self.topics_open.reading(request.topic, lambda topic: [_pointer(one) for one in topic.partitions])

    # -- writing ----------------------------------------------------------------------------------------------

    def begin(self, topic: str, draft: Draft, condition: Condition = ALWAYS) -> asyncio.Future[Outcome] | None:
        """`write`, to a topic that is open; None for others. Errors of the future: also `Fenced`, `UnknownTopic` and `Closed`, where the
        topic is not the one that was opened: nothing was written."""
        opened = self.topics_open.known(topic)
        return None if opened is None else opened.writer(draft.id).write(draft, condition)

    async def write(self, topic: str, draft: Draft, condition: Condition = ALWAYS) -> Outcome:
        """Write one record; returns once it is durable. None: there is no such journal, and nothing was written."""
        begun = self.begin(topic, draft, condition)
        if begun is not None:
            try:
                return await begun
            except REOPENS:
                pass

        async def write(opened: OpenTopic) -> Outcome:
            return await opened.writer(draft.id).write(draft, condition)

        return await self.topics_open.writing(topic, write)

    async def append_draft(self, topic: str, draft: PlainDraft | AppendDraft, condition: Condition = ALWAYS) -> Appended:
        """`write` of an Append."""
        appended = await self.write(topic, draft, condition)
        assert isinstance(appended, Appended)
        return appended

    @staticmethod
    def condition(draft: PlainDraft | AppendDraft, expected: int | None, key: str | None) -> Condition:
        """What an Append asks for. Errors: `BadInput`."""
        check_expected(expected)
        if key is not None:
            return Condition(expected, check_key(key), draft.digest(expected))
        return ALWAYS if expected is None else Condition(expected)

    async def append(self, request: requests.AppendEvents) -> Reply[Appended]:
        body, key = request.body, request.idempotency
        assert body is not None
        await self.topics_open.find(request.topic)
        drafted = draft_of(request.id, body, self.by)
        expected = request.expected()
        appended = await self.append_draft(request.topic, drafted, self.condition(drafted, expected, key))
        return Reply(appended, 201, {"Idempotency-Replayed": "true"} if appended.replayed else {})

    async def append_many(self, request: requests.AppendMany) -> bytes:
        """Each line is done by itself; lines of one journal in their order."""
        drafted: list[Drafted] = []
        for line in request.lines:
            try:
                made = draft_of(check_id(line.id), line, self.by)
                drafted.append((made, self.condition(made, line.expected, line.idempotency_key)))
            except HeadwaterError as error:
                drafted.append(error)
        outcomes = await self.append_drafts(request.topic, drafted)
        return b"".join(_outcome_line(outcome, self._ids()) for outcome in outcomes)

    async def append_drafts(self, topic: str, drafted: Sequence[Drafted]) -> Outcomes:
        """What became of each of these; an error stands for itself. Errors: `UnknownJournal`."""
        await self.topics_open.find(topic)
        outcomes: list[Appended | HeadwaterError] = []
        for at in range(0, len(drafted), _AT_ONCE):
            begun = [asyncio.ensure_future(self._appended(topic, one)) for one in drafted[at : at + _AT_ONCE]]
            outcomes += await asyncio.gather(*begun)
        return outcomes

    async def _appended(self, topic: str, drafted: Drafted) -> Appended | HeadwaterError:
        if isinstance(drafted, HeadwaterError):
            return drafted
        try:
            return await self.append_draft(topic, *drafted)
        except HeadwaterError as error:
            return error

    async def delete(self, request: requests.DeleteEvents) -> answers.JournalChanged:
        return _changed(await self.write(request.topic, DeleteDraft(request.id, request.to)))

    async def purge(self, request: JournalRequest) -> answers.JournalChanged:
        return _changed(await self.write(request.topic, PurgeDraft(request.id)))

    async def mark(self, request: requests.MarkJournal) -> Reply[answers.JournalChanged]:
        return Reply(_changed(await self.write(request.topic, MarkDraft(request.id, request.mark or self._ids()))), 201)

    # -- reading ----------------------------------------------------------------------------------------------

    async def find_head(self, request: requests.HeadRequest) -> Head | None:
        """The head of a journal; None: there is none."""
        end = await self._marked(request)

        def find(topic: OpenTopic) -> Head | None:
            partition = topic.partition(request.id)
            return partition.full_head(request.id, _end_of(partition, request, end))

        return await self.topics_open.reading(request.topic, find)

    async def head(self, request: requests.HeadRequest) -> Reply[answers.ShownHead]:
        head = await self.find_head(request)
        if head is None:
            raise NotFound(f"There is no journal {request.id!r:.60}.", hint="Its first Append creates it; expected=0 says that it is new.")
        return Reply(show_head(request.id, head), 200, {"ETag": f'"{head.last}"'})

    async def last_number(self, request: requests.HeadRequest) -> int | None:
        """The last number of a journal; None: there is none."""
        end = await self._marked(request)

        def find(topic: OpenTopic) -> Head | None:
            partition = topic.partition(request.id)
            return partition.joined(request.id, _end_of(partition, request, end)).head

        head = await self.topics_open.reading(request.topic, find)
        return None if head is None else head.last

    async def _marked(self, request: requests.HeadRequest) -> int | None:
        """The offset of a mark, where the request asks for one."""
        if request.consistency != "mark":
            return None
        mark = await self.write(request.topic, MarkDraft(request.id, self._ids()))
        assert isinstance(mark, ActionPlaced)
        return mark.offset

    async def pages(self, request: requests.ReadEvents, size: int = PAGE) -> AsyncIterator[Rows]:
        """The events of a journal, in pages."""
        left = request.limit
        if left == 0:
            await self.topics_open.find(request.topic)
            return
        end = await self._marked(request)
        most = size if left is None else min(size, left)

        def begin(topic: OpenTopic) -> tuple[JournalRead, list[EventRow]]:
            partition = topic.partition(request.id)
            return _begun(partition, request, _end_of(partition, request, end), most)

        here = None if request.consistency == "mark" else self.topics_open.reading_here(request.topic, request.id)
        begun: tuple[JournalRead, Rows] | None = None
        if here is not None:
            most = min(most, _SMALL)
            with suppress(UnknownTopic):  # deleted just now
                begun = begin(here)
        read, rows = await self.topics_open.reading(request.topic, begin) if begun is None else begun
        while rows:
            left = None if left is None else left - len(rows)
            yield rows
            if read.over or (left is not None and left <= 0):
                return
            rows = await asyncio.to_thread(read.page, size if left is None else min(size, left))

    async def read_page(self, request: requests.ReadEvents) -> answers.EventsPage:
        limit = PAGE if request.limit is None else request.limit
        found: list[EventRow] = []
        async for rows in self.pages(msgspec.structs.replace(request, limit=limit + 1 if limit else 0)):
            found += rows
        return answers.EventsPage([show_event(row) for row in found[:limit]], str(found[limit].seq_nr) if len(found) > limit else None)

    async def trail(self, request: requests.TrailRequest) -> answers.JournalTrail:
        return await self.topics_open.reading(request.topic, lambda topic: trail(topic.partition(request.id), request.id, request.limit))

    def followed(self, request: requests.FollowJournals) -> AsyncIterator[tuple[str, EventRow, Any]]:
        """The events of a topic with their journals and positions: those that are kept, then those that come."""
        return follow(self._log, self.topics_open.find, request)


def _begun(partition: JournalPartition, request: requests.ReadEvents, end: int | None, most: int) -> tuple[JournalRead, list[EventRow]]:
    read = JournalRead(partition, request.id, start=request.start, stop=request.stop, end=end)
    return read, read.page(most)


def _end_of(partition: JournalPartition, request: requests.HeadRequest, marked: int | None) -> int | None:
    """The offset up to which a request reads; None: the store alone."""
    if request.consistency == "store":
        return None
    return partition.end() if marked is None else marked


def _changed(outcome: Outcome) -> answers.JournalChanged:
    if outcome is None:
        return answers.JournalChanged(done=False)
    assert isinstance(outcome, ActionPlaced)
    return answers.JournalChanged(done=True, partition=outcome.partition, offset=outcome.offset, to=outcome.to or None)


def _outcome_line(outcome: Appended | HeadwaterError, error_id: str) -> bytes:
    if isinstance(outcome, HeadwaterError):
        return encoded(problem_of(outcome, error_id)) + b"\n"
    return json.encode(outcome) + b"\n"


def _shown_topic(topic: Topic, writers: Writers) -> answers.ShownJournals:
    return answers.ShownJournals(topic=topic.name, partitions=topic.partitions, writers=writers, generation=topic.generation)


def _would_create(name: str, there: Sequence[Topic], request: requests.CreateJournals) -> answers.ShownJournals:
    known = next((topic for topic in there if topic.name == name), None)
    if known is not None:
        return answers.ShownJournals(topic=name, partitions=known.partitions, writers="owner", generation=known.generation, dry_run=True)
    return answers.ShownJournals(topic=name, partitions=request.partitions, writers="owner", created=True, dry_run=True)


def _ids(topic: OpenTopic, after: str | None, limit: int) -> list[str]:
    each = [journal_ids(partition, after, limit) for partition in topic.partitions]
    return list(merge(*each, key=str.encode))[:limit]


def _pointer(partition: JournalPartition) -> answers.ShownPointer:
    pointer, end = partition.pointer(), partition.end()
    return answers.ShownPointer(
        partition=partition.number,
        offset=pointer.offset,
        end=end,
        lag=max(0, end - pointer.offset - 1),
        created=_time(pointer, pointer.created),
        updated=_time(pointer, pointer.updated),
    )


def _time(pointer: Pointer, ms: int) -> str | int | None:
    return None if pointer.offset < 0 else show_time(ms)


def _status(topic: OpenTopic, engine: str) -> answers.TopicStatus:
    partitions = [_partition_status(partition) for partition in topic.partitions]
    return answers.TopicStatus(
        topic=topic.topic.name,
        writers=topic.writers,
        generation=topic.topic.generation,
        store=engine,
        lag=sum(one.lag for one in partitions),
        partitions=partitions,
    )


def _partition_status(partition: JournalPartition) -> answers.JournalPartitionStatus:
    pointer, bounds, cache = partition.pointer(), partition.bounds(), partition.cache
    counted = {} if cache is None else {
        "cached": len(cache), "hits": cache.counts.hit, "misses": cache.counts.miss, "ahead": cache.counts.ahead,
        "limited": cache.counts.limited, "behind": cache.counts.behind,
    }  # fmt: skip
    return answers.JournalPartitionStatus(
        partition=partition.number,
        start=bounds.start,
        end=bounds.end,
        pointer=pointer.offset,
        lag=max(0, bounds.end - pointer.offset - 1),
        updated=_time(pointer, pointer.updated),
        duplicates=partition.duplicates.dropped,
        **counted,
    )
