"""The door's journals: events of entities, over a directory or over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.client.backend import Backend
from headwater.core.errors import BadInput, Closed, Fenced, HeadwaterError, NotFound, NotOwner, UnknownJournal, UnknownTopic
from headwater.journal import care_operations as care_ask
from headwater.journal import care_requests as care
from headwater.journal import operations as ask
from headwater.journal import requests
from headwater.journal.answers import JournalChanged, JournalTrail, ShownHead, ShownJournals, ShownPointer, TopicStatus
from headwater.journal.append_draft import draft, plain_draft
from headwater.journal.bodies import BulkLine, body_of, read_outcome
from headwater.journal.event import EventRecord
from headwater.journal.names import check_id
from headwater.journal.requests import Consistency, check_expected, listed
from headwater.journal.shown import FollowedEvent, event_of, followed_event, read_shown
from headwater.journal.write import ALWAYS, Appended
from headwater.log.record import check_topic_name

if TYPE_CHECKING:
    from headwater.client.journal_performer import JournalPerformer

_BATCH = 1000


class Journals:
    """Every topic of journals: `bank = hw.journals("bank")`, then `await bank["alice"].append({"type": "opened"})`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, topic: str, *, create: bool = False) -> TopicJournals:
        """The journals of a topic: `journals("bank")` is the topic `journal-bank`. Does no I/O.

        Awaiting it checks that it is there, and with `create` makes one that is not. Errors: `BadInput`.
        """
        check_topic_name(topic)
        return TopicJournals(self._backend, topic, create=create)

    async def list(self) -> Sequence[ShownJournals]:
        """Every topic of journals, sorted by name."""
        return await self._backend.ask(ask.LIST, requests.ListJournals())

    async def create(self, topic: str, *, partitions: int = 0, dry_run: bool = False) -> ShownJournals:
        """Create a topic of journals. One that is there stays as it is. `partitions`: 0 for the configured number.

        Errors: `AlreadyExists` where it is there with another number of partitions.
        """
        return await self._backend.ask(ask.CREATE, requests.CreateJournals(topic=topic, partitions=partitions, dry_run=dry_run))


class TopicJournals:
    """The journals of a topic, by their ids.

    Errors of every call: `UnknownJournal` for a topic that is not there; `BadInput`; `Unavailable`. Over HTTP also `Unreachable`.
    """

    def __init__(self, backend: Backend, name: str, *, create: bool = False) -> None:
        self._backend, self.name, self._create = backend, name, create
        self._performer: JournalPerformer | None = backend.performer_here(ask.JOURNAL.name)

    def __await__(self) -> Generator[Any, None, TopicJournals]:
        return self.open().__await__()

    async def open(self) -> TopicJournals:
        """Check that the topic is there, and create it first where that was asked for. Errors: `UnknownJournal`."""
        if self._create:
            await Journals(self._backend).create(self.name)
        else:
            await self.pointers()
        return self

    def __getitem__(self, id: str) -> Journal:
        """A journal by its id. Does no I/O. Errors: `BadInput` for what is no id."""
        return Journal(self._backend, self.name, check_id(id), performer=self._performer)

    async def ids(self) -> AsyncIterator[str]:
        """The ids of all journals, sorted by their UTF-8 bytes. Purged ones are left out."""
        after: str | None = None
        while True:
            page = await self._backend.ask(ask.IDS, requests.LookAtJournals(topic=self.name, after=after, limit=_BATCH))
            for id in page.items:
                yield id
            if page.next is None:
                return
            after = page.next

    async def append_many(self, appends: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Appended | HeadwaterError]:
        """Append to many journals: pairs of an id and its payloads or `Event`s, each pair one Append, done by itself.

        Returns, for each, where it lies, or the error that it met; those of one journal are done in their order.
        """
        if self._performer is not None:
            return await self._performer.append_drafts(self.name, [self._drafted(id, events) for id, events in appends])
        lines = []
        refused: dict[int, HeadwaterError] = {}
        for index, (id, events) in enumerate(appends):
            drafted = self._drafted(id, events)
            if isinstance(drafted, HeadwaterError):
                refused[index] = drafted
            else:
                lines.append(BulkLine(id=id, events=body_of(events).events))
        sent = await self._backend.ask(ask.APPEND_MANY, requests.AppendMany(topic=self.name, lines=lines)) if lines else b""
        answered = iter(map(read_outcome, sent.splitlines()))
        return [refused[index] if index in refused else next(answered) for index in range(len(appends))]

    def _drafted(self, id: str, events: Sequence[Any]) -> Any:
        try:
            by = (None, None) if self._performer is None else self._performer.by
            return draft(check_id(id), events, by=by), ALWAYS
        except BadInput as error:
            return error

    async def follow(
        self, after: str | None = None, *, tags: Collection[str] | None = None, ids: Collection[str] | None = None
    ) -> AsyncIterator[FollowedEvent]:
        """The events of the topic, those that the log keeps and then those that come, for ever. Deletes and Purges take nothing back.

        `after`: the `position` of the last event that was seen; None: from the first one on. `tags`: only events with one of these. `ids`:
        only these journals. Errors: `OffsetGone` for a position whose records are deleted.
        """
        request = requests.FollowJournals(topic=self.name, after=after, tags=listed(tags, "tags"), ids=listed(ids, "ids"))
        if self._performer is not None:
            request.check()
            async for id, row, position in self._performer.followed(request):
                yield followed_event(row, id, str(position))
            return

        def behind(event: Any) -> requests.FollowJournals:
            return msgspec.structs.replace(request, after=event.position)

        async for shown in self._backend.stream(ask.FOLLOW, request, behind):
            event = read_shown(shown)
            assert isinstance(event, FollowedEvent)
            yield event

    async def status(self) -> TopicStatus:
        """The topic and its partitions: what the log keeps, how far it is copied, the head caches."""
        page = await self._backend.ask(ask.IDS, requests.LookAtJournals(topic=self.name, view="status"))
        assert page.status is not None
        return page.status

    async def pointers(self) -> Sequence[ShownPointer]:
        """How far each partition is copied into the store."""
        page = await self._backend.ask(ask.IDS, requests.LookAtJournals(topic=self.name, view="pointers"))
        return page.pointers or []

    # -- the copy in the store --------------------------------------------------------------------------------

    async def verify(self) -> care.VerifiedCopy:
        """Compare the copy with what the log says. Errors: `Differs` with the first difference; `LogGap` where the log was deleted."""
        return await (await self._backend.start(care_ask.VERIFY, requests.JournalsRequest(topic=self.name))).result()

    async def rebuild(self, *, why: str = "", dry_run: bool = False) -> care.RebuiltCopy:
        """Let the replicator make the copy anew, from the beginning of the log. Errors: `LogGap` where the log no longer begins at 0."""
        return await self._backend.ask(care_ask.REBUILD, care.RebuildCopy(topic=self.name, why=why, dry_run=dry_run))

    async def expire(self, *, dry_run: bool = False) -> care.ExpiredJournals:
        """Remove the copied journals whose day has come, UTC. A replicator does so once a day."""
        return await self._backend.ask(care_ask.EXPIRE, care.ExpireJournals(topic=self.name, dry_run=dry_run))

    async def dead(self) -> Sequence[care.ShownDead]:
        """The records that cannot be decoded: those that are left out, and those that stop their partition."""
        return await self._backend.ask(care_ask.DEAD, requests.JournalsRequest(topic=self.name))

    async def dead_show(self, partition: int, offset: int) -> care.DeadContent:
        """A record with its bytes, and why it cannot be decoded."""
        return await self._backend.ask(care_ask.DEAD_SHOW, care.DeadPlace(topic=self.name, partition=partition, offset=offset))

    async def dead_quarantine(self, partition: int, offset: int, *, why: str, dry_run: bool = False) -> care.ShownDead:
        """Leave out a record that cannot be decoded: its partition goes on behind it. Errors: `BadInput` for one that can be decoded."""
        request = care.QuarantineRecord(topic=self.name, partition=partition, offset=offset, why=why, dry_run=dry_run)
        return await self._backend.ask(care_ask.DEAD_QUARANTINE, request)

    async def dead_retry(self, partition: int, offset: int, *, why: str = "", dry_run: bool = False) -> care.RetriedRecord:
        """Count a record again that can be decoded by now. Errors: `UnreadableRecord` where it still cannot be."""
        request = care.RetryRecord(topic=self.name, partition=partition, offset=offset, why=why, dry_run=dry_run)
        return await self._backend.ask(care_ask.DEAD_RETRY, request)


class Journal:
    """The events of one entity, numbered from 1. The first Append creates it.

    Errors of every call: `UnknownJournal` for a topic that is not there; `BadInput`; `Unavailable`, such as `OutcomeUnknown` where the log
    could not be written; `Damaged`, such as `LogGap`; `NotOwner`. Over HTTP also `Unreachable`.
    """

    def __init__(self, backend: Backend, topic: str, id: str, *, performer: JournalPerformer | None = None) -> None:
        self._backend, self.topic, self.id, self._performer = backend, topic, id, performer

    # -- writing ----------------------------------------------------------------------------------------------

    async def append(
        self,
        *events: Any,
        expected: int | None = None,
        tags: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        metadata: Any = None,
        header_metadata: Any = None,
        expire_after: str | None = None,
        idempotency_key: str | None = None,
    ) -> Appended:
        """Append payloads, or `Event`s, as one record, all or none; return their numbers once they are durable.

        A payload is bytes, text, or a value of JSON. `expected`: the last number of the journal, 0 for a new one. `tags`: of every event.
        `headers`: texts by name. `metadata`: JSON that is kept with the events, `header_metadata`: in the record's header. `expire_after`,
        such as "30d": when the journal may be removed. `idempotency_key`: an Append that is sent twice is done once, for a day.

        Errors: `WrongExpected` with the last number; `KeyReused`; `TooLarge`; `BadInput` for no or unordered events and reserved headers;
        `NotOwner` where others write the topic, too, and an event has no number or `expected` is given.
        """
        performer = self._performer
        if performer is not None:
            by = performer.by
            if len(events) == 1 and not (tags or headers or expire_after or metadata is not None or header_metadata is not None):
                made = plain_draft(self.id, events[0], by)
            else:
                made = draft(
                    self.id, events, tags=tags, headers=headers, metadata=metadata, header_metadata=header_metadata,
                    expire_after=expire_after, by=by,
                )  # fmt: skip
            condition = ALWAYS if expected is None and idempotency_key is None else performer.condition(made, expected, idempotency_key)
            try:
                begun = performer.begin(self.topic, made, condition)
                if begun is not None:
                    return await begun  # type: ignore[return-value]  # the outcome of an Append
            except (Fenced, UnknownTopic, Closed):
                pass  # the topic is to be opened anew
            except NotOwner as error:
                if not error.address:
                    raise
            try:
                return await performer.append_draft(self.topic, made, condition)
            except NotOwner as error:
                if not error.address:
                    raise
        check_expected(expected)
        about = {"tags": tags, "headers": headers, "metadata": metadata, "header_metadata": header_metadata, "expire_after": expire_after}
        draft(self.id, events, **about)  # its errors, before anything is sent
        body = body_of(events, **about, expected=expected)
        request = requests.AppendEvents(topic=self.topic, id=self.id, idempotency=idempotency_key, body=body)
        return await self._backend.ask(ask.APPEND, request)

    async def delete(self, *, to: int) -> JournalChanged:
        """Delete the events up to a number, with it. Its last number stays. An unknown journal stays unknown."""
        return await self._backend.ask(ask.DELETE, requests.DeleteEvents(topic=self.topic, id=self.id, to=to))

    async def purge(self) -> JournalChanged:
        """Remove the journal, for good. One that is appended to later begins at 1."""
        return await self._backend.ask(ask.PURGE, requests.JournalRequest(topic=self.topic, id=self.id))

    async def mark(self, id: str | None = None) -> JournalChanged:
        """Put a mark into the partition. Whoever has read it has read everything before it."""
        return await self._backend.ask(ask.MARK, requests.MarkJournal(topic=self.topic, id=self.id, mark=id))

    # -- reading ----------------------------------------------------------------------------------------------

    async def read(
        self, start: int = 1, *, stop: int | None = None, limit: int | None = None, consistency: Consistency = "end"
    ) -> AsyncIterator[EventRecord]:
        """The events from a number on, up to `stop`, with it. Empty for an unknown journal.

        `consistency`: "end", everything that was durable when the read began; "mark", the same through a mark in the log; "store", what is
        copied alone. Errors: `BadBounds`; `Conflict` for a journal that is purged while it is read; `UnreadableRecord`.
        """
        request = requests.ReadEvents(topic=self.topic, id=self.id, start=start, stop=stop, limit=limit, consistency=consistency)
        if self._performer is not None:
            request.check()
            async for rows in self._performer.pages(request):
                for row in rows:
                    yield event_of(row)
            return
        async for shown in self._backend.stream(ask.READ, request):
            yield read_shown(shown)

    async def pointer(self, *, consistency: Consistency = "end") -> int | None:
        """The last number; None for a journal that is not there. Deletes leave it as it is."""
        request = requests.HeadRequest(topic=self.topic, id=self.id, consistency=consistency)
        if self._performer is not None:
            request.check()
            return await self._performer.last_number(request)
        head = await self.head(consistency=consistency)
        return None if head is None else head.seq_nr

    async def head(self, *, consistency: Consistency = "end") -> ShownHead | None:
        """The head: last number, what is deleted, when it was created and expires; None for a journal that is not there."""
        try:
            return await self._backend.ask(ask.HEAD, requests.HeadRequest(topic=self.topic, id=self.id, consistency=consistency))
        except UnknownJournal:
            raise
        except NotFound:
            return None

    async def trail(self, *, limit: int = 100) -> JournalTrail:
        """Its newest records in the log, its head in the store, and how far the store lags behind."""
        return await self._backend.ask(ask.TRAIL, requests.TrailRequest(topic=self.topic, id=self.id, limit=limit))
