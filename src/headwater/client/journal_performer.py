"""Performs the operations on journals in this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import msgspec

from headwater.client.journal_care import JournalCare
from headwater.client.journal_ciphers import JournalCiphers
from headwater.client.journal_follow import follow
from headwater.client.journal_projections import JournalProjections
from headwater.client.journal_topics import OpenTopics, written_by
from headwater.client.journal_transfer import JournalTransfer
from headwater.client.local import LocalLog
from headwater.client.snapshot_performer import SnapshotPerformer
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, Fenced, HeadwaterError, NotFound, UnknownTopic
from headwater.core.ids import Ids, random_id
from headwater.core.settings import Settings
from headwater.journal import answers, operations, requests
from headwater.journal.append_draft import AppendDraft, PlainDraft
from headwater.journal.bodies import draft_of
from headwater.journal.care_operations import CARE
from headwater.journal.change import EventRow, payload_bytes
from headwater.journal.cipher_operations import CIPHER
from headwater.journal.grown import GrownRead
from headwater.journal.head import Head
from headwater.journal.idempotency import check_key
from headwater.journal.metrics import CallType, JournalMetrics, MeasuredCall
from headwater.journal.names import check_id
from headwater.journal.open_topic import OpenTopic
from headwater.journal.partition import JournalPartition
from headwater.journal.projection_operations import PROJECTION_OPERATIONS
from headwater.journal.read import PAGE, JournalRead
from headwater.journal.requests import JournalRequest, JournalsRequest, check_expected
from headwater.journal.shown import show_event, show_followed, show_head
from headwater.journal.snapshot_operations import SNAPSHOTS, SNAPSHOTS_SAVE
from headwater.journal.topic_views import show_change, show_creation, show_pointer, show_status, show_topics, topic_ids
from headwater.journal.trail import trail
from headwater.journal.transfer_operations import TRANSFER
from headwater.journal.transfer_requests import ImportedLines, ImportLines
from headwater.journal.write import ALWAYS, ActionPlaced, Appended, Condition, DeleteDraft, Draft, MarkDraft, Outcome, PurgeDraft
from headwater.wire import json
from headwater.wire.operation import Operation, Reply
from headwater.wire.problems import encoded, problem_of

_audit = logging.getLogger("headwater.audit")
_FREQUENT = {operations.APPEND, operations.APPEND_MANY, operations.MARK, SNAPSHOTS_SAVE}
Rows = list[EventRow]
Begun = tuple[JournalRead | GrownRead, Rows]
"""A read, and its first events."""
Texts = list[str]
Outcomes = list[Appended | HeadwaterError]
Drafted = tuple[PlainDraft | AppendDraft, Condition] | HeadwaterError
"""An Append of many, or why it can be none."""
_SMALL = 100  # events: reading so few takes less time than a thread's wake-up
_LARGE = 4 << 20  # bytes of the payloads of a page: hundreds of readers may each hold one
_ANSWER = 16 << 20  # bytes of the payloads of an answer
REOPENS = (Fenced, UnknownTopic, Closed)
"""Errors of a topic that is to be opened anew."""
_TYPES: dict[type, CallType] = {DeleteDraft: "delete", PurgeDraft: "purge", MarkDraft: "mark"}
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
        self.settings, self.clock = settings, clock
        """Those of this process."""
        self.metrics: JournalMetrics | None = None
        """Counts the calls, in a server."""
        self.topics_open = OpenTopics(log, clock=clock, settings=settings, by=self.by, address=address)
        self.transfer = JournalTransfer(self)
        self.care = JournalCare(self.topics_open, clock=clock, settings=settings)
        self.ciphers = JournalCiphers(self.topics_open)
        self.snapshots = SnapshotPerformer(self.topics_open, by=self.by)
        self.projections = JournalProjections(self.topics_open)

    # -- how it runs ------------------------------------------------------------------------------------------

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str = "") -> Any:
        if operation in CARE:
            answer = await self.care.perform(operation, request, who)
        elif operation in CIPHER:
            answer = await self.ciphers.perform(operation, request, who)
        elif operation in SNAPSHOTS:
            answer = await self.snapshots.perform(operation, request)
        elif operation in PROJECTION_OPERATIONS:
            answer = await self.projections.perform(operation, request, who)
        else:
            answer = await getattr(self, operation.name)(request)
        if operation.changes and operation not in _FREQUENT and not getattr(request, "dry_run", False):
            fields = {name: value for name, value in msgspec.structs.asdict(request).items() if name != "lines"}
            _audit.info("%s: %s %s", who or "this process", operation.id, fields)
        return answer

    async def stream(self, operation: Operation[Any, Any], request: Any) -> AsyncIterator[Any]:
        if operation is operations.FOLLOW:
            async for id, row, position in self.followed(request):
                yield show_followed(row, id, str(position))
        elif operation in TRANSFER:
            async for line in self.transfer.export(request):
                yield line
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
        return await self.topics_open.work(show_topics)

    async def create(self, request: requests.CreateJournals) -> Reply[answers.ShownJournals]:
        if request.dry_run:
            shown = await self.topics_open.work(lambda topics: show_creation(topics, request))
            return Reply(shown, 200)
        if request.cipher:
            await self.ciphers.check(request.cipher)
        topic, new = await self.topics_open.work(lambda topics: topics.create(request.topic, request.partitions))
        if request.cipher:
            await self.ciphers.turn_on(request.topic, request.cipher)
        (shown,) = await self.topics_open.work(lambda topics: show_topics(topics, [topic]))
        return Reply(msgspec.structs.replace(shown, created=new), 201 if new else 200)

    async def ids(self, request: requests.LookAtJournals) -> answers.TopicPage:
        if request.view == "status":
            return answers.TopicPage(status=await self.status(request))
        if request.view == "pointers":
            return answers.TopicPage(pointers=list(await self.pointers(request)))
        ids = await self._ids_of(request, request.after, request.limit + 1)
        shown = ids[: request.limit]
        return answers.TopicPage(items=shown, next=shown[-1] if len(ids) > request.limit else None)

    async def ids_behind(self, topic: str, after: str | None, limit: int) -> Texts:
        """Ids of journals behind one, sorted by their UTF-8 bytes."""
        return await self.topics_open.reading(topic, lambda opened: topic_ids(opened, after, limit))

    async def import_lines(self, request: ImportLines) -> ImportedLines:
        return await self.transfer.import_lines(request)

    async def _ids_of(self, request: JournalsRequest, after: str | None, limit: int) -> Texts:
        return await self.ids_behind(request.topic, after, limit)

    async def status(self, request: JournalsRequest) -> answers.TopicStatus:
        """A topic and its partitions."""
        engine = self.topics_open.store_engine
        return await self.topics_open.reading(request.topic, lambda topic: show_status(topic, engine, self.care.replicator(topic.log)))

    async def pointers(self, request: JournalsRequest) -> Sequence[answers.ShownPointer]:
        """How far each partition of a topic is copied."""
        return await self.topics_open.reading(request.topic, lambda topic: [show_pointer(partition) for partition in topic.partitions])

    # -- writing ----------------------------------------------------------------------------------------------

    def begin(self, topic: str, draft: Draft, condition: Condition = ALWAYS) -> asyncio.Future[Outcome] | None:
        """`write`, to a topic that is open; None for others. Errors of the future: also `Fenced`, `UnknownTopic` and `Closed`, where the
        topic is not the one that was opened: nothing was written."""
        opened = self.topics_open.known(topic)
        return None if opened is None else opened.writer(draft.id).write(draft, condition)

    async def write(self, topic: str, draft: Draft, condition: Condition = ALWAYS) -> Outcome:
        """Write one record; returns once it is durable. None: there is no such journal, and nothing was written."""
        if self.metrics is None:
            return await self._write(topic, draft, condition)
        with self.metrics.call(topic, _TYPES.get(type(draft), "append")) as call:
            outcome = await self._write(topic, draft, condition)
        if isinstance(outcome, Appended):
            call.events(outcome.last - outcome.first + 1)
        return outcome

    async def _write(self, topic: str, draft: Draft, condition: Condition) -> Outcome:
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
            if isinstance(line, HeadwaterError):
                drafted.append(line)
                continue
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
            begun = [asyncio.ensure_future(self._appended(topic, draft)) for draft in drafted[at : at + _AT_ONCE]]
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
        return show_change(await self.write(request.topic, DeleteDraft(request.id, request.to)))

    async def purge(self, request: JournalRequest) -> answers.JournalChanged:
        return show_change(await self.write(request.topic, PurgeDraft(request.id)))

    async def mark(self, request: requests.MarkJournal) -> Reply[answers.JournalChanged]:
        return Reply(show_change(await self.write(request.topic, MarkDraft(request.id, request.mark or self._ids()))), 201)

    # -- reading ----------------------------------------------------------------------------------------------

    async def find_head(self, request: requests.HeadRequest) -> Head | None:
        """The head of a journal; None: there is none."""
        end = await self._marked(request)

        def find(topic: OpenTopic) -> Head | None:
            return topic.head(request.id, _end_of(topic.partition(request.id), request, end), full=True)

        with self._measured(request.topic, "pointer"):
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
            return topic.head(request.id, _end_of(topic.partition(request.id), request, end))

        with self._measured(request.topic, "pointer"):
            head = await self.topics_open.reading(request.topic, find)
        return None if head is None else head.last

    def _measured(self, topic: str, type: CallType) -> AbstractContextManager[MeasuredCall | None]:
        """A call, counted where a server asks for metrics."""
        return nullcontext() if self.metrics is None else self.metrics.call(topic, type)

    async def _marked(self, request: requests.HeadRequest) -> int | None:
        """The offset of a mark, where the request asks for one."""
        if request.consistency != "mark":
            return None
        mark = await self.write(request.topic, MarkDraft(request.id, self._ids()))
        assert isinstance(mark, ActionPlaced)
        return mark.offset

    async def pages(self, request: requests.ReadEvents, size: int = PAGE, begun: Begun | None = None) -> AsyncIterator[Rows]:
        """The events of a journal, in pages. `begun`: what `begin_read` has begun."""
        left = request.limit
        if left == 0:
            await self.topics_open.find(request.topic)
            return
        end = await self._marked(request)
        most = min(size, _SMALL) if left is None else min(size, _SMALL, left)

        def begin(topic: OpenTopic) -> Begun:
            until = _end_of(topic.partition(request.id), request, end)
            read = topic.read(request.id, start=request.start, stop=request.stop, end=until)
            return read, read.page(most)

        with self._measured(request.topic, "read") as call:
            begun = begun or self.begin_read(request)
            read, rows = await self.topics_open.reading(request.topic, begin) if begun is None else begun
        while rows:
            if call is not None:
                call.events(len(rows))
            left = None if left is None else left - len(rows)
            yield rows
            if read.over or (left is not None and left <= 0):
                return
            size = max(1, min(PAGE, _LARGE * len(rows) // max(1, payload_bytes(rows))))  # large events come in small pages
            rows = await asyncio.to_thread(read.page, size if left is None else min(size, left))

    def begin_read(self, request: requests.ReadEvents) -> Begun | None:
        """The first events, where this event loop may read them: few, from open files of this machine."""
        reading = None if request.consistency == "mark" or request.limit == 0 else self.topics_open.reading_here(request.topic, request.id)
        if reading is None:
            return None
        topic, end = reading
        with suppress(UnknownTopic):  # deleted just now
            until = None if request.consistency == "store" else end
            read = topic.read(request.id, start=request.start, stop=request.stop, end=until)
            return read, read.page(_SMALL if request.limit is None else min(_SMALL, request.limit))
        return None

    async def read_page(self, request: requests.ReadEvents) -> answers.EventsPage:
        limit = PAGE if request.limit is None else request.limit
        events: list[EventRow] = []
        size = 0
        async for rows in self.pages(msgspec.structs.replace(request, limit=limit + 1 if limit else 0)):
            if size >= _ANSWER:
                limit = len(events)
            events += rows
            if len(events) > limit:
                break
            size += payload_bytes(rows)
        return answers.EventsPage([show_event(row) for row in events[:limit]], str(events[limit].seq_nr) if len(events) > limit else None)

    async def trail(self, request: requests.TrailRequest) -> answers.JournalTrail:
        id = request.id

        def find(topic: OpenTopic) -> answers.JournalTrail:
            return trail([topic.partitions[number] for number in topic.places(id)], topic.snapshots(id), id, request.limit)

        return await self.topics_open.reading(request.topic, find)

    def followed(self, request: requests.FollowJournals) -> AsyncIterator[tuple[str, EventRow, Any]]:
        """The events of a topic with their journals and positions: those that are kept, then those that come."""
        return follow(self._log, self.topics_open.current, self.topics_open.store, request, self.clock)


def _end_of(partition: JournalPartition, request: requests.HeadRequest, marked: int | None) -> int | None:
    """The offset up to which a request reads; None: the store alone."""
    if request.consistency == "store":
        return None
    return partition.end() if marked is None else marked


def _outcome_line(outcome: Appended | HeadwaterError, error_id: str) -> bytes:
    if isinstance(outcome, HeadwaterError):
        return encoded(problem_of(outcome, error_id)) + b"\n"
    return json.encode(outcome) + b"\n"
