"""The door's journals: events of entities, over a directory or over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.client.backend import Backend
from headwater.client.journal_snapshots import JournalSnapshots
from headwater.core.errors import Closed, Fenced, NotFound, NotOwner, UnknownJournal, UnknownTopic
from headwater.journal import cipher_operations as cipher_ask
from headwater.journal import operations as ask
from headwater.journal import requests
from headwater.journal.answers import JournalChanged, JournalTrail, ShownHead
from headwater.journal.append_draft import draft, plain_draft
from headwater.journal.bodies import body_of
from headwater.journal.cipher_operations import ErasedJournal
from headwater.journal.event import EventRecord
from headwater.journal.requests import Consistency, check_expected
from headwater.journal.shown import events_of, read_shown
from headwater.journal.write import ALWAYS, Appended

if TYPE_CHECKING:
    from headwater.client.journal_performer import JournalPerformer


class Journal:
    """The events of one entity, numbered from 1. The first Append creates it.

    Errors of every call: `UnknownJournal` for a topic that is not there; `BadInput`; `Unavailable`, such as `OutcomeUnknown` where the log
    could not be written; `Damaged`, such as `LogGap`; `NotOwner`. Over HTTP also `Unreachable`.
    """

    def __init__(self, backend: Backend, topic: str, id: str, *, performer: JournalPerformer | None = None) -> None:
        self._backend, self.topic, self.id, self._performer = backend, topic, id, performer

    @property
    def snapshots(self) -> JournalSnapshots:
        """Its snapshots: `await alice.snapshots.save(state)`. Does no I/O."""
        return JournalSnapshots(self._backend, self.topic, self.id)

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

    async def erase(self, *, why: str, dry_run: bool = False) -> ErasedJournal:
        """Remove the journal of an encrypted topic and destroy its keys: nobody can read its events any more. `why`: for the audit.

        One that is appended to later begins at 1, with a new key. Erasing again finishes an erasure that has stopped midway, and otherwise
        does nothing. Errors: `BadInput` for a topic that is not encrypted.
        """
        return await self._backend.ask(cipher_ask.ERASE, cipher_ask.EraseJournal(topic=self.topic, id=self.id, why=why, dry_run=dry_run))

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
        performer = self._performer
        if performer is not None and limit is None and consistency == "end":
            short = performer.topics_open.short_read(self.topic, self.id, start, stop)
            if short is not None:
                for event in short:
                    yield event
                return
        request = requests.ReadEvents(topic=self.topic, id=self.id, start=start, stop=stop, limit=limit, consistency=consistency)
        if self._performer is not None:
            request.check()
            begun = self._performer.begin_read(request)
            if begun is not None and begun[0].over:
                for event in events_of(begun[1]):
                    yield event
                return
            async for rows in self._performer.pages(request, begun=begun):
                for event in events_of(rows):
                    yield event
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
