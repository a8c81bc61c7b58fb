"""What tests of feeds share: a log with a topic of documents, stores, and a writer that makes histories."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from random import Random

import msgspec

from headwater.core.clock import SystemClock
from headwater.documents.catch_up import PartitionHistory
from headwater.documents.change import EMPTY, ChangeRecord, Method, ResourceChange, decode_record, encode_record
from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent
from headwater.documents.path import parse_path, partition_of
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import AppendedRecord, DocumentStore
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, Topic, TopicSettings

TOPIC = "hyper-storage"
PARTITIONS = 2
END = "shop~/end"  # where `taken` stops, too


class FeedGround:
    """A log, the stores of its partitions, and the state of every document that was written here."""

    def __init__(self, log: Log, topic: Topic, stores: Sequence[DocumentStore]) -> None:
        self.log, self.topic, self.stores = log, topic, stores
        self.revisions: dict[str, int] = {}
        self.generations: dict[str, int] = {}
        self.bodies: dict[str, dict[str, object]] = {}
        self.written: list[tuple[str, int, str, bytes]] = []

    def feeds(self) -> DocumentFeeds:
        self._feeds = DocumentFeeds(self.log, self.topic, lambda partition: self.stores[partition].view(), SystemClock())
        return self._feeds

    def feeds_of(self, uri: str) -> PartitionHistory:
        """The changes of the partition of a document or collection."""
        number = partition_of(uri, len(self.stores))
        return PartitionHistory(self.log, self.topic.name, number, self.stores[number].view)

    def followers(self, uri: str) -> int:
        """How many follow something in the partition of a document or collection."""
        return self._feeds.dispatch(partition_of(uri, len(self.stores))).followers

    def change(self, path: str, method: Method, body: dict[str, object] | None = None) -> ResourceChange:
        """The next change of a document, as its writer would make it."""
        uri, item = parse_path(path)
        revision = self.revisions[uri] = self.revisions.get(uri, 0) + 1
        event = msgspec.Raw(msgspec.json.encode(body)) if body is not None else EMPTY
        state = EMPTY
        if method == "patch":
            self.bodies[path] = {**self.bodies.get(path, {}), **(body or {})}
            state = msgspec.Raw(msgspec.json.encode(self.bodies[path]))
        elif method == "put":
            self.bodies[path] = dict(body or {})
        else:
            if not item and uri.endswith("~"):
                self.generations[uri] = self.generations.get(uri, 1) + 1
            for known in [path] if item else [known for known in self.bodies if parse_path(known).uri == uri]:
                self.bodies.pop(known, None)
        self.written.append((path, revision, method, bytes(event)))
        return ResourceChange(method=method, revision=revision, item=item, event=event, body=state)

    def record(self, *changes: tuple[str, Method, dict[str, object] | None]) -> tuple[int, Record]:
        """A record of one or more changes of one document, and its partition."""
        uri = parse_path(changes[0][0]).uri
        made = tuple(self.change(*change) for change in changes)
        value = encode_record(ChangeRecord(uri=uri, generation=self.generations.get(uri, 1), changes=made))
        return partition_of(uri, len(self.stores)), Record(uri.encode(), value)

    def write(self, *changes: tuple[str, Method, dict[str, object] | None], apply: bool = True, time: int | None = None) -> int:
        """Append a record and fold it; its offset."""
        partition, record = self.record(*changes)
        record = msgspec.structs.replace(record, timestamp=time)
        offset = self.append(partition, record)
        if apply:
            self.apply(partition)
        return offset

    def append(self, partition: int, record: Record) -> int:
        """Append a record; its offset."""
        (offset,) = self.log.append(self.topic.name, partition, [record], part="documents")
        return offset

    def put(self, path: str, *, apply: bool = True, time: int | None = None, **body: object) -> int:
        return self.write((path, "put", body), apply=apply, time=time)

    def apply(self, partition: int) -> None:
        """Fold what the store has not applied."""
        store = self.stores[partition]
        with store.view() as view:
            applied = view.applied()
        end = self.log.bounds(self.topic.name, partition).end
        records = self.log.read(self.topic.name, partition, applied) if applied < end else []
        records = [record for record in records if self.counts(partition, record)]
        rows = [AppendedRecord(record.offset or 0, record.timestamp or 0, decode_record(record.value, "")) for record in records]
        store.apply(rows, (records[-1].offset or 0) + 1 if records else applied)

    def counts(self, partition: int, record: Record) -> bool:
        """Whether a record counts; each is asked for once, in order."""
        return True

    def apply_all(self) -> None:
        for partition in range(len(self.stores)):
            self.apply(partition)

    def random_write(self, random: Random, paths: Sequence[str], *, apply: bool = True) -> None:
        """One change, or a record of several, of one of these paths."""
        uri = parse_path(random.choice(paths)).uri
        own = [path for path in paths if parse_path(path).uri == uri]
        changes: list[tuple[str, Method, dict[str, object] | None]] = []
        for _ in range(random.choice((1, 1, 1, 3))):
            path, kind = random.choice(own), random.random()
            if path.endswith("~"):
                if self.revisions.get(path):
                    changes = [(path, "delete", None)]
                    break
                path = f"{path}/first"
            if kind < 0.15 and path in self.bodies and all(path != changed for changed, _, _ in changes):
                changes.append((path, "delete", None))
            elif kind < 0.5 and path in self.bodies and (path, "delete", None) not in changes:
                changes.append((path, "patch", {random.choice("ab"): random.randrange(100)}))
            else:
                changes.append((path, "put", {"n": random.randrange(100)}))
        self.write(*changes, apply=apply)

    def history(self, path: str) -> list[tuple[str, int, str, bytes]]:
        """What was written to a document or collection, as events tell it."""
        return [change for change in self.written if parse_path(change[0]).uri == parse_path(path).uri]


def told(events: Sequence[FeedEvent]) -> list[tuple[str, int, str, bytes]]:
    """Events, as `FeedGround.history` tells them."""
    return [(event.path, event.revision, event.method, event.body) for event in events]


def replayed(history: Sequence[tuple[str, int, str, bytes]], revision: int) -> dict[str, bytes]:
    """The bodies by path at a revision of a document or collection."""
    state: dict[str, bytes] = {}
    for path, of, method, body in history:
        if of > revision:
            break
        if method == "put":
            state[path] = body
        elif method == "patch":
            state[path] = msgspec.json.encode({**msgspec.json.decode(state[path]), **msgspec.json.decode(body)})
        elif path.endswith("~"):
            state.clear()
        else:
            state.pop(path, None)
    return state


@contextmanager
def feed_ground(path: Path) -> Iterator[FeedGround]:
    """A log and stores in a directory, which is opened again by the next call."""
    with EmbeddedLog(path) as log, SqliteDocumentStores(path / "documents") as stores:
        topic = log.create_topic(TOPIC, partitions=PARTITIONS, settings=TopicSettings(segment=4096), part="documents")
        yield FeedGround(log, topic, [stores.partition(number, topic.generation) for number in range(PARTITIONS)])


async def taken(following: AsyncGenerator[Sequence[FeedEvent]], count: int) -> list[FeedEvent]:
    """The next events, at least so many, and then no more."""
    events: list[FeedEvent] = []
    async with asyncio.timeout(30), aclosing(following):
        async for portion in following:
            events += portion
            if len(events) >= count or events[-1].path == END:
                break
    return events
