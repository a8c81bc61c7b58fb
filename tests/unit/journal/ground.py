"""What tests of the replicator share: a log with a topic of journals, a store, actions as records, and a digest of what a store holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.until import until

from headwater.core.clock import Clock
from headwater.core.settings import Settings, SparkSettings
from headwater.journal.action import Append, Delete, Mark, PayloadMetadata, Purge
from headwater.journal.digest import digest
from headwater.journal.discovery import Discovery, JournalTopic
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.loop import ReplicatorLoop
from headwater.journal.replicate import RoundOutcome, Rounds
from headwater.journal.status import ReplicatorStatus
from headwater.journal.store import JournalStore
from headwater.journal.store_address import open_store, store_address_of
from headwater.journal.wire import write_record
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.clock import ManualClock

TOPIC = "journal-bank"
POISON = Record(b"x", None, (("journal.action", b"{no json"),))


def appended(id: str, first: int, last: int | None = None, *, expire_after: int | None = None, timestamp: int | None = None) -> Record:
    """An Append of the events `first` to `last`."""
    last = first if last is None else last
    events = [NumberedEvent(number, Payload(PayloadKind.TEXT, f"{id} {number}".encode()), ("t",)) for number in range(first, last + 1)]
    payload_type, value = encode_events(events, PayloadMetadata(expire_after))
    return write_record(id, Append(first, last, payload_type, "here"), value=value, timestamp=timestamp)


def deleted(id: str, to: int) -> Record:
    return write_record(id, Delete(to))


def purged(id: str) -> Record:
    return write_record(id, Purge())


def marked(id: str) -> Record:
    return write_record(id, Mark("m"))


def random_records(random: Random, count: int, ids: Sequence[str] = ("a", "b", "c")) -> list[Record]:
    """A history: mostly Appends, with gaps, repeats, Deletes, Purges, Marks and records of others."""
    last = dict.fromkeys(ids, 0)
    found: list[Record] = []
    for _ in range(count):
        id, kind = random.choice(ids), random.random()
        if kind < 0.65:
            first = max(1, last[id] + random.choice((1, 1, 1, 1, 3, 0, -1)))
            end = first + random.randrange(3)
            last[id] = max(last[id], end)
            found.append(appended(id, first, end, expire_after=random.choice((None, None, 86_400_000))))
        elif kind < 0.78:
            found.append(deleted(id, random.randrange(1, last[id] + 3)))
        elif kind < 0.86:
            last[id] = 0
            found.append(purged(id))
        elif kind < 0.95:
            found.append(marked(id))
        else:
            found.append(Record(b"foreign", b"value"))
    return found


class Ground:
    """A data directory with an embedded log and a SQLite store."""

    def __init__(self, data: Path, clock: Clock | None = None) -> None:
        self.data, self.clock = data, clock or ManualClock()
        self.log: Log = EmbeddedLog(data, clock=self.clock)
        self.address = store_address_of(Settings(), data)
        self.store: JournalStore = open_store(self.address)
        self.outcomes: list[RoundOutcome] = []
        self.statuses: list[ReplicatorStatus] = []

    def topic(self, name: str = TOPIC, partitions: int = 2) -> JournalTopic:
        made = self.log.create_topic(name, partitions=partitions)
        return JournalTopic(name, partitions, made.generation)

    def append(self, *records: Record, partition: int = 0, topic: str = TOPIC) -> list[int]:
        return list(self.log.append(topic, partition, records))

    def rounds(self, *, small: int = 1 << 40, stopping: threading.Event | None = None) -> Rounds:
        return Rounds(
            self.log,
            self.store,
            address=self.address,
            spark=SparkSettings(master="local[2]"),
            small=small,
            clock=self.clock,
            stopping=stopping,
        )

    def loop(
        self, *, log: Log | None = None, store: JournalStore | None = None, prefixes: Sequence[str] = ("journal",), small: int = 1 << 40
    ) -> ReplicatorLoop:
        log, store = log or self.log, store or self.store
        stopping = threading.Event()
        rounds = Rounds(
            log,
            store,
            address=self.address,
            spark=SparkSettings(master="local[2]"),
            small=small,
            clock=self.clock,
            stopping=stopping,
        )
        return ReplicatorLoop(
            log,
            store,
            rounds,
            Discovery(log, prefixes),
            clock=self.clock,
            random=Random(1),
            report=self.statuses.append,
            copied=self.outcomes.append,
            stopping=stopping,
        )

    def pointer(self, partition: int = 0, topic: str = TOPIC) -> int:
        copy = self.store.partition(topic, partition, self.log.topic(topic).generation, create=False)
        return copy.pointer().offset if copy is not None else -1

    def close(self) -> None:
        self.store.close()
        self.log.close()


@contextmanager
def ground_at(data: Path, clock: Clock | None = None) -> Iterator[Ground]:
    """A ground that is closed at the end."""
    ground = Ground(data, clock)
    try:
        yield ground
    finally:
        ground.close()


def held(store: JournalStore, topic: JournalTopic) -> list[str]:
    """The digests of everything that a store holds of a topic."""
    found = []
    for number in range(topic.partitions):
        copy = store.partition(topic.name, number, topic.generation)
        assert copy is not None
        with copy.view() as view:
            found.append(digest(view))
    return found


def eventually(holds: Callable[[], object], clock: Clock | None = None) -> None:
    """Return once something holds that another thread does. `clock` moves meanwhile."""

    def moved() -> object:
        found = holds()
        if not found and isinstance(clock, ManualClock):
            clock.advance(0.01)
        return found

    asyncio.run(until(moved))
