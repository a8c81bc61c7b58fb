"""The topics of journals that this process has open, and the store that they are copied into."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from headwater.client.local import LocalLog
from headwater.cluster import Ownership
from headwater.core.clock import Clock
from headwater.core.errors import Closed, Fenced, UnknownTopic
from headwater.core.settings import Settings
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.event import MAX_SEQ_NR, EventRecord
from headwater.journal.key_address import key_address_of, open_keys
from headwater.journal.open_topic import OpenTopic
from headwater.journal.settings import JOURNAL_SECTION, JournalSettings
from headwater.journal.store import JournalStore
from headwater.journal.store_address import StoreAddress, open_store, store_address_of
from headwater.journal.topics import PART, JournalTopics, Writers
from headwater.log import Log
from headwater.log.record import Topic

T = TypeVar("T")
_FRESH = 0.1  # seconds for which a topic is taken to be the one that was opened
_AGAIN = 3
_GROUP = "headwater-journals"  # the consumer group of those who own partitions of journals


class _CreatedAgain(Exception):
    """The topic was deleted and created again since it was opened, or has more partitions."""


class OpenTopics:
    """Opens topics at their first call. Belongs to one event loop."""

    def __init__(self, log: LocalLog, *, clock: Clock, settings: Settings, by: tuple[str | None, str | None], address: str = "") -> None:
        self._log, self._clock, self._settings, self._by = log, clock, settings, by
        self._address = address
        self._owners: Ownership | None = None
        self.journal: JournalSettings = JOURNAL_SECTION.of(settings)
        self.store_engine = settings.store.engine
        self._open: dict[str, OpenTopic] = {}  # by the name that users give
        self._checked: dict[str, float] = {}
        self._store: JournalStore | None = None
        self._keys: EntityKeys | None = None
        self._opening = threading.Lock()
        self._closed = False

    def known(self, name: str) -> OpenTopic | None:
        """A topic that is open."""
        return self._open.get(name)

    def all_open(self) -> list[OpenTopic]:
        """The topics that are open; one twice where it is asked for by two names. Safe from any thread."""
        return list(self._open.values())

    def full_name(self, name: str) -> str | None:
        """The topic that a user's name stands for; None where it is not open."""
        opened = self._open.get(name)
        return None if opened is None else opened.topic.name

    def log_now(self) -> Log | None:
        """The log, where it is open."""
        return None if self._closed else self._log.now

    def topics(self, log: Log) -> JournalTopics:
        """The topics of the log."""
        return JournalTopics(log, self.journal, self._log.usual)

    async def work(self, call: Callable[[JournalTopics], T]) -> T:
        """Call with the topics, in a thread."""
        self._check()
        return await self._log.work(lambda log: call(self.topics(log)))

    async def work_with_log(self, call: Callable[[Log], T]) -> T:
        """Call with the log, in a thread."""
        self._check()
        return await self._log.work(call)

    async def find(self, name: str) -> OpenTopic:
        """A topic. Errors: `UnknownJournal`."""
        open_topic = self._open.get(name)
        if open_topic is None:
            self._check()
            log = await self._log.open()
            topic, writers = await self._log.work(lambda log: self._found(self.topics(log), name))
            self._check()
            if name not in self._open:
                self._open[name] = OpenTopic(
                    log,
                    lambda: self.store(log),
                    topic,
                    writers=writers,
                    settings=self.journal,
                    clock=self._clock,
                    by=self._by,
                    own=None if log.engine == "embedded" else lambda topic, number: self._ownership(log).own(topic, number, part=PART),
                    quick=log.engine == "embedded" and self.store_engine == "sqlite",
                    keys=lambda: self.keys(log),
                )
                self._checked[name] = self._clock.monotonic()
            open_topic = self._open[name]
        return open_topic

    @staticmethod
    def _found(topics: JournalTopics, name: str) -> tuple[Topic, Writers]:
        topic = topics.find(name)
        return topic, topics.writers(topic)

    async def reading(self, name: str, call: Callable[[OpenTopic], T]) -> T:
        """Call with a topic, in a thread; again where the topic is not the one that was opened. Errors: `UnknownJournal`."""
        for _ in range(_AGAIN):
            opened = await self.find(name)
            try:
                return await self._log.work(lambda log, opened=opened: self._current(log, name, opened, call))  # type: ignore[misc]
            except (_CreatedAgain, UnknownTopic):
                await self._drop(name, opened)
        raise (await self.work(lambda topics: topics.unknown(name)))

    async def current(self, name: str) -> OpenTopic:
        """A topic as it is now: one that was created again is opened anew. Errors: `UnknownJournal`."""
        return await self.reading(name, lambda opened: opened)

    def reading_here(self, name: str, id: str) -> tuple[OpenTopic, int] | None:
        """A topic of which an event loop may read this journal, and the end of its partition: the topic is open, it was looked at just now,
        and the read is small."""
        opened = self._open.get(name)
        if opened is None or self._clock.monotonic() - self._checked.get(name, 0.0) > _FRESH:
            return None
        end = opened.partition(id).warm_end()
        return None if end is None else (opened, end)

    def short_read(self, name: str, id: str, start: int, stop: int | None) -> list[EventRecord] | None:
        """All events of a short journal, where an event loop may read it and its copy holds everything; None elsewhere, and for what
        are no numbers."""
        opened, last = self._open.get(name), MAX_SEQ_NR if stop is None else stop
        if opened is None or self._clock.monotonic() - self._checked.get(name, 0.0) > _FRESH:
            return None
        if type(start) is not int or type(last) is not int or not 1 <= start <= last <= MAX_SEQ_NR:
            return None
        return opened.partitions[opened.place(id)].short_read(id, start, last)

    def _current(self, log: Log, name: str, opened: OpenTopic, call: Callable[[OpenTopic], T]) -> T:
        now = self._clock.monotonic()
        if now - self._checked.get(name, 0.0) > _FRESH:
            topic = log.topic(opened.topic.name)
            if (topic.generation, topic.partitions) != (opened.topic.generation, opened.topic.partitions):  # created again, or grown
                raise _CreatedAgain
            self._checked[name] = now
        return call(opened)

    async def writing(self, name: str, call: Callable[[OpenTopic], Awaitable[T]]) -> T:
        """Await a call with a topic; again where the topic was created anew: nothing was written then. Errors: `UnknownJournal`."""
        for _ in range(_AGAIN):
            opened = await self.find(name)
            try:
                return await call(opened)
            except (Fenced, UnknownTopic) as error:
                fresh = await self._log.work(lambda log: self.topics(log).find(name))
                if isinstance(error, Fenced) and fresh.generation == opened.topic.generation:
                    raise
                await self._drop(name, opened)
        raise (await self.work(lambda topics: topics.unknown(name)))

    async def _drop(self, name: str, opened: OpenTopic) -> None:
        if self._open.get(name) is opened:
            del self._open[name]
        await opened.aclose()

    def store_address(self, log: Log) -> StoreAddress:
        """Where the store is. Errors: `BadConfig`."""
        return store_address_of(self._settings, Path(log.address.path) if log.engine == "embedded" else self._settings.data)

    def store(self, log: Log) -> JournalStore:
        """The store, opened at its first use. Blocking."""
        with self._opening:
            if self._store is None:
                self._check()
                self._store = open_store(self.store_address(log), clock=self._clock)
            return self._store

    def keys(self, log: Log) -> EntityKeys | None:
        """The keys of encrypted journals, opened at their first use; None where no master key is configured. Blocking."""
        with self._opening:
            if self._keys is None:
                self._check()
                address = key_address_of(self._settings, Path(log.address.path) if log.engine == "embedded" else self._settings.data)
                self._keys = open_keys(address, clock=self._clock) if address.configured else None
            return self._keys

    def _ownership(self, log: Log) -> Ownership:
        """Who owns partitions on Kafka. Blocking at its first use."""
        with self._opening:
            if self._owners is None:
                from headwater.cluster.kafka import KafkaOwnership

                self._owners = KafkaOwnership(log, group=_GROUP, address=self._address, clock=self._clock)
            return self._owners

    async def aclose(self) -> None:
        """Finish the calls under way, and close. Closing twice is no error."""
        self._closed = True
        opened, self._open = list(self._open.values()), {}
        await asyncio.gather(*(topic.aclose() for topic in opened))
        owners, self._owners = self._owners, None
        if owners is not None:
            await asyncio.to_thread(owners.close)
        store, self._store = self._store, None
        if store is not None:
            await asyncio.to_thread(store.close)
        keys, self._keys = self._keys, None
        if keys is not None:
            await asyncio.to_thread(keys.close)

    def _check(self) -> None:
        if self._closed:
            raise Closed("This headwater is closed.", hint="Open it again.")


def written_by() -> tuple[str, str]:
    """The origin and the version that this process writes into its records."""
    return socket.gethostname(), metadata.version("headwater")
