"""Follows a topic of journals: the events that were appended, and then those that come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from headwater.client.local import LocalLog
from headwater.client.merge import merged
from headwater.core.clock import Clock
from headwater.core.errors import BadBounds, Differs, OffsetGone
from headwater.journal.change import EventRow
from headwater.journal.claims import has_claims
from headwater.journal.control import ControlLog
from headwater.journal.envelope import MARK
from headwater.journal.followed import PartitionFollow, PlacedEvent, beyond_the_end, deleted_before_read
from headwater.journal.open_topic import OpenTopic
from headwater.journal.position import FollowPlace, FollowPosition, generation_mark
from headwater.journal.requests import FollowJournals
from headwater.journal.store import JournalStore
from headwater.log import Log

_LOOK = 5.0  # seconds between two checks of the topic's generation and of its partitions
_ANEW = "Follow without a position: from the first event on."
_GONE = 'Follow with copied=True (--copied): it reads them from the store\'s copy. after="kept" (--after kept) goes on without them.'
Found = tuple[list[PlacedEvent], FollowPlace]


async def follow(
    log: LocalLog,
    find: Callable[[str], Awaitable[OpenTopic]],
    store: Callable[[Log], JournalStore],
    request: FollowJournals,
    clock: Clock,
) -> AsyncGenerator[tuple[str, EventRow, FollowPosition]]:
    """Journal, event and the position behind it, for ever. Events of one journal come in the order of the log.

    Deletes and Purges take nothing back: this is what was appended. Quarantined records and erased events are left out. Errors:
    `UnknownJournal`; `OffsetGone` for records that the log has deleted, unless the request reads them from the copy, and then `LogGap`
    where the copy lacks them; `Differs` for a position of another topic of this name, or behind the log's end; `UnreadableRecord`;
    `Undecryptable`.
    """
    position = request.position()
    while True:
        topic = await find(request.topic)
        described = await log.topic(topic.topic.name)
        if position.generation not in ("", generation_mark(described.generation)):
            raise Differs(f"The position is of another topic {described.name}: this one was created after it.", hint=_ANEW)
        position = FollowPosition(position.places, generation_mark(described.generation), position.kept)
        tails = _Tails(log, topic, store, request)
        async for event in tails.events(position, described.partitions, clock):
            yield event.id, event.row, tails.position
        position = tails.position  # the topic has grown: its new partitions are read from their beginning


class _Tails:
    """The tails of a topic's partitions, merged."""

    def __init__(self, log: LocalLog, topic: OpenTopic, store: Callable[[Log], JournalStore], request: FollowJournals) -> None:
        self._log, self._topic, self._store, self._request = log, topic, store, request
        self._tags, self._ids = request.wanted_tags(), request.wanted_ids()
        self._name = topic.topic.name
        self._claimed = has_claims(topic.log, topic.topic)
        self._control = ControlLog(topic.log, self._name)
        self.position = FollowPosition()

    async def events(self, position: FollowPosition, partitions: int, clock: Clock) -> AsyncGenerator[PlacedEvent]:
        """Events, until the topic has more partitions."""
        self.position = position
        wanted = frozenset(range(partitions))
        if self._ids and self._topic.log.engine == "embedded":  # a topic on Kafka may have grown, and a journal lies in two partitions
            wanted = frozenset(map(self._topic.place, self._ids))
        tails: dict[int, AsyncIterator[Found]] = {number: self._partition(number, position) for number in sorted(wanted)}
        looked = clock.monotonic()
        arrivals = merged(tails)
        try:
            async for arrived in arrivals:
                for number, (events, behind) in arrived:
                    for event in events:
                        self.position = self.position.at(number, event.place)
                        yield event
                    self.position = self.position.at(number, behind)
                if clock.monotonic() - looked >= _LOOK:
                    looked = clock.monotonic()
                    described = await self._log.topic(self._name)
                    if described.generation != self._topic.topic.generation:
                        raise Differs(f"The topic {self._name} was deleted and created again.", hint=_ANEW)
                    if described.partitions != partitions:
                        return
        finally:
            await arrivals.aclose()

    async def _partition(self, number: int, position: FollowPosition) -> AsyncGenerator[Found]:
        """The events of a partition, and the place behind each portion."""
        place = position.place(number)
        if place.offset is None:
            start = (await self._log.bounds(self._name, number)).start if position.kept else 0
            place = FollowPlace(start)
        reading = PartitionFollow(
            number,
            place,
            claimed=self._claimed,
            quarantined=lambda offset: self._left_out(number, offset),
            tags=self._tags,
            ids=self._ids,
            opens=self._topic.cipher.open_kept,
        )
        while True:
            try:
                if reading.place.until < 0:
                    async for records in self._log.follow(self._name, number, reading.place.offset or 0):
                        encrypted = any(MARK in (record.value or b"") for record in records)  # then keys are looked up, which takes a while
                        events, unreadable = await asyncio.to_thread(reading.readable, records) if encrypted else reading.readable(records)
                        yield events, reading.place
                        if unreadable is not None:
                            raise unreadable
            except BadBounds as error:
                raise beyond_the_end(self._name, number, error, _ANEW) from error
            except OffsetGone as error:
                if not self._request.copied:
                    start = (await self._log.bounds(self._name, number)).start
                    raise deleted_before_read(self._name, number, reading.place.offset or 0, start, _GONE) from error
            async for page in self._copied(number, reading):
                yield page

    async def _copied(self, number: int, reading: PartitionFollow) -> AsyncGenerator[Found]:
        """What the store has of the records that the log has deleted."""
        until = (await self._log.bounds(self._name, number)).start

        def page(log: Log) -> list[PlacedEvent]:
            copy = self._store(log).partition(self._name, number, self._topic.topic.generation, create=False)
            return reading.copied(self._name, copy, until)

        while True:
            events = await self._log.work(page)
            yield events, reading.place
            if reading.place.until < 0:
                return
            await asyncio.sleep(0)

    def _left_out(self, number: int, offset: int) -> bool:
        self._control.look()
        return offset in self._control.partition(self._topic.topic.generation, number).quarantined
