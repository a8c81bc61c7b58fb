"""The log on Kafka. Rules P3 and P4; the parts are in the files beside this one, each with one noun."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadBounds, Fenced, OffsetGone, ReadOnly, UnknownTopic, Unsupported
from headwater.core.files import Files
from headwater.core.metrics import LogMetrics
from headwater.log import Log, Watching, Writer
from headwater.log.address import Engine, LogAddress
from headwater.log.guard import Guard
from headwater.log.kafka.arrivals import KafkaArrivals
from headwater.log.kafka.brokers import Brokers, closed
from headwater.log.kafka.claims import KafkaClaims
from headwater.log.kafka.follower import Follower
from headwater.log.kafka.identity import TopicIdentity
from headwater.log.kafka.partition import KafkaPartition
from headwater.log.kafka.readers import PartitionConsumer, Readers
from headwater.log.kafka.records import columns, columns_outgoing, incoming
from headwater.log.kafka.scattered import read_at
from headwater.log.kafka.sending import RecordSender
from headwater.log.kafka.topics import KafkaTopics
from headwater.log.kafka.writer import KafkaWriter, LentKafkaWriter, claim, no_compaction
from headwater.log.marker import mark_engine
from headwater.log.owners import check_owner
from headwater.log.record import Bounds, Compacted, Header, Record, Topic, TopicSettings, check_scan, whole

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message

_IDLE_TURN = 0.05  # seconds after which a tail without records gives an empty list; the contract says 0.1
_TAIL = 10_000
_SCANNED = 32 << 20  # bytes of values after which a batch of a scan ends early
_LOOK = 1.0  # seconds without a record after which a tail checks that its topic exists


class KafkaLog(Log):
    """Topics of a Kafka cluster.

    Guarantees: those of `Log`, where "durable" is "replicated to all in-sync replicas" (`acks=all`, idempotent producer, no unclean
    election): when the brokers sync to disk is their own setting. New topics have three copies and need two of them in sync
    where there are three brokers. No topic is ever created by naming it. Records of transactions that others have aborted are read, too.

    `servers`: addresses to begin with, host:port. `replication`: copies of new topics, 0 for the rule above. `client`: further settings
    of the client, such as credentials. `timeout`: seconds after which an unanswered request fails, and a record's delivery is given up.
    Errors: `BadConfig`; brokers that do not answer are noticed by the first call. After a fork the child's copy makes its own connections.
    """

    engine: Engine = "kafka"

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        replication: int = 0,
        client: Mapping[str, str] | None = None,
        data: Path | None = None,
        read_only: bool = False,
        clock: Clock | None = None,
        metrics: LogMetrics | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.read_only, self._data = read_only, data
        self._servers = servers if isinstance(servers, str) else ",".join(servers)
        self._replication, self._client, self._timeout = replication, dict(client or {}), timeout
        self._clock, self._metrics, self._closed = clock or SystemClock(), metrics, False
        self._connect()
        myself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forked(myself()))

    def _connect(self) -> None:
        self._brokers = Brokers(self._servers, client=self._client, clock=self._clock, timeout=self._timeout)
        self._topics = KafkaTopics(self._brokers, replication=self._replication)
        self._sender = RecordSender(self._brokers, self._topics, clock=self._clock, metrics=self._metrics)
        if not self.read_only:
            self._sender.begin()
        self._readers = Readers(self._brokers, self._look_again, wait_ms=5, ahead=1)
        self._tails = Readers(self._brokers, self._look_again, wait_ms=100, ahead=_TAIL)
        self._follower = Follower(self._brokers, self._note_foreign)
        self._arrivals = KafkaArrivals(self._brokers, self._topics, lambda topic, partition: self.bounds(topic, partition).end)
        self._claims = KafkaClaims(self.bounds, self._messages)
        self._changed = threading.Condition()
        self._appending = 0

    @property
    def address(self) -> LogAddress:
        return LogAddress(engine="kafka", servers=self._servers, replication=self._replication, client=self._client)

    # -- topics ---------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None, part: str = "", copies: int = 0
    ) -> Topic:
        """As `Log.create_topic`. A segment has at least 1 MiB and room for the largest record, and the topic shows it."""
        self._check_writable()
        if self._data is not None:  # so that the embedded engine refuses the directory from now on
            mark_engine(self._data, Files(), "kafka")
        return self._topics.create(name, partitions, settings, part, copies=copies)

    def topics(self) -> list[Topic]:
        self._check_open()
        return self._topics.all()

    def topic(self, name: str) -> Topic:
        self._check_open()
        return self._topics.get(name)

    def retention(self, topic: str) -> str:
        self._check_open()
        return self._topics.retention(topic)

    def delete_topic(self, name: str, *, part: str = "") -> None:
        self._check_writable()
        check_owner(name, self._topics.get(name).settings.owner, part, "delete_topic")
        self._topics.delete(name)
        if self._metrics is not None:
            self._metrics.forget(name)

    # -- writing --------------------------------------------------------------------------------------------

    def append(self, topic: str, partition: int, records: Sequence[Record], *, guard: Guard | None = None, part: str = "") -> Sequence[int]:
        if guard is not None:
            raise Unsupported(
                f"No broker holds {topic}/{partition} still while a guard looks at it.",
                hint="Claim the partition, and append with the guard through its Writer.",
            )
        with self.appending():
            self._owned(topic, partition, part, "append")
            return self.send(topic, partition, records, None)

    def append_arrow(self, topic: str, partition: int, batch: pa.RecordBatch, *, part: str = "") -> Sequence[int]:
        return self.append(topic, partition, columns_outgoing(batch), part=part)

    def claim(self, topic: str, partition: int, *, part: str = "", claimant: str = "") -> KafkaWriter:
        self._check_writable()
        self._owned(topic, partition, part, "claim")
        return claim(KafkaPartition(self, topic, partition), self._follower, claimant)

    def writer(self, topic: str, partition: int, epoch: int, *, generation: str = "", part: str = "") -> Writer:
        self._check_writable()
        self._owned(topic, partition, part, "claim")
        return LentKafkaWriter(KafkaPartition(self, topic, partition), epoch, generation or self._topics.get(topic).generation)

    def epoch(self, topic: str, partition: int) -> int:
        self._check_open()
        self._topics.place(topic, partition)
        return self._claims.newest(self._topics.get(topic), partition)

    def _owned(self, topic: str, partition: int, part: str, operation: str) -> None:
        """Errors: `OwnedTopic`; `UnknownTopic`, `UnknownPartition`."""
        check_owner(topic, self._topics.place(topic, partition).settings.owner, part, operation)

    def check_records(self, topic: str, records: Sequence[Record]) -> None:
        self._check_open()
        self._sender.check(topic, records)

    def send(self, topic: str, partition: int, records: Sequence[Record], mark: Header | None) -> Sequence[int]:
        """Append the records, each with the header `mark`."""
        return self._sender.send(topic, partition, records, mark)

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Around an append: `close` waits for it."""
        with self._changed:
            self._check_writable()
            self._appending += 1
        try:
            yield
        finally:
            with self._changed:
                self._appending -= 1
                self._changed.notify_all()

    # -- reading --------------------------------------------------------------------------------------------

    def bounds(self, topic: str, partition: int) -> Bounds:
        self._check_open()
        self._topics.place(topic, partition)
        with self._readers.lent() as reader:
            return reader.bounds(topic, partition)

    def read(self, topic: str, partition: int, start: int, *, limit: int = 1000, max_bytes: int = 64 << 20) -> list[Record]:
        self._check_open()
        self._topics.place(topic, partition)
        records: list[Record] = []
        start, limit, max_bytes, size = whole(start), whole(limit, "limit"), whole(max_bytes, "size"), 0
        with self._readers.lent() as reader:
            end = self._checked(reader, topic, partition, start, None)
            if limit < 1 or start == end:
                return []
            reader.begin(topic, partition, start)
            for messages in reader.until(end, limit):
                for message in messages:
                    size += len(message) + len(message.key() or b"")
                    if records and (len(records) == limit or size > max_bytes):
                        return records
                    records.append(incoming(message))
                if len(records) == limit:
                    break
        return records

    def read_at(self, topic: str, partition: int, offsets: Sequence[int]) -> list[Record | None]:
        """As `Log.read_at`. Offsets up to 500 apart are one request to a broker, others one each."""
        self._check_open()
        self._topics.place(topic, partition)
        while True:
            try:
                with self._readers.lent() as reader:
                    return read_at(reader, topic, partition, offsets)
            except OffsetGone:  # deleted while it was read: the start is a higher one now
                continue

    def scan(self, topic: str, partition: int, start: int, end: int | None = None, *, batch: int = 65_536) -> Iterator[pa.RecordBatch]:
        self._check_open()
        self._topics.place(topic, partition)
        start, end = whole(start), None if end is None else whole(end)
        check_scan(start, start if end is None else end, whole(batch, "batch size"))
        with self._readers.lent() as reader:
            end = self._checked(reader, topic, partition, start, end)
        return self._scanned(topic, partition, start, end, batch)

    def _scanned(self, topic: str, partition: int, start: int, end: int, batch: int) -> Iterator[pa.RecordBatch]:
        if start == end:
            return
        with self._readers.lent() as reader:
            reader.begin(topic, partition, start)
            waiting: list[Message] = []
            size = 0
            for messages in reader.until(end, batch):
                self._check_open()
                waiting += messages
                size += sum(map(len, messages))
                while len(waiting) >= batch or size > _SCANNED:
                    count = min(batch, _fitting(waiting))
                    yield columns(waiting[:count])
                    size -= sum(map(len, waiting[:count]))
                    waiting = waiting[count:]
            if waiting:
                yield columns(waiting)

    def _messages(self, topic: str, partition: int, start: int, end: int) -> Iterator[Message]:
        with self._readers.lent() as reader:
            reader.begin(topic, partition, start)
            for messages in reader.until(end, _TAIL):
                self._check_open()
                yield from messages

    def tail(self, topic: str, partition: int, start: int, *, stopped: Callable[[], bool]) -> Iterator[list[Record]]:
        self._check_open()
        place, start = self._topics.place(topic, partition), whole(start)
        with self._readers.lent() as reader:
            self._checked(reader, topic, partition, start, None)
        return self._tailed(place, partition, start, stopped)

    def watch(self, topic: str, partition: int, changed: Callable[[], None]) -> Watching:
        self._check_open()
        return self._arrivals.watch(self._topics.place(topic, partition), partition, changed)

    def _tailed(self, topic: Topic, partition: int, start: int, stopped: Callable[[], bool]) -> Iterator[list[Record]]:
        with self._tails.lent() as reader:
            reader.begin(topic.name, partition, start)
            look = self._clock.monotonic() + _LOOK
            while not stopped():
                self._check_open()
                messages = reader.take(_TAIL, _IDLE_TURN)
                now = self._clock.monotonic()
                if messages:
                    look = now + _LOOK
                elif now > look:  # the client reports no error for a deleted topic
                    look = now + _LOOK
                    if self._topics.get(topic.name).generation != topic.generation:
                        raise UnknownTopic(
                            f"The topic {topic.name} was deleted and created again.", hint="Read the new one from its start."
                        )
                yield [incoming(message) for message in messages]

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        self._check_open()
        self._topics.place(topic, partition)
        timestamp = whole(timestamp, "timestamp")
        with self._readers.lent() as reader:
            # The bounds come first: if no record is found, an end that is read afterwards may lie behind a record appended meanwhile.
            bounds = reader.bounds(topic, partition)
            if timestamp <= 0:  # every record fits, and negative numbers have other meanings in the request
                return bounds.start
            offset = reader.offset_at(topic, partition, timestamp)
            return bounds.end if offset is None else max(offset, bounds.start)

    # -- housekeeping ---------------------------------------------------------------------------------------

    def delete_before(self, topic: str, partition: int, offset: int, *, part: str = "") -> int:
        """As `Log.delete_before`. The records tell whether the partition is claimed: see `epoch` for how many it reads."""
        self._check_writable()
        self._owned(topic, partition, part, "delete_before")
        return self.delete_records(topic, partition, offset, lambda: self.check_claim(topic, partition, 0))

    def check_claim(self, topic: str, partition: int, epoch: int) -> None:
        """Errors: `Fenced` where the newest claim is not `epoch`."""
        claimed = self.epoch(topic, partition)
        if claimed != epoch:
            whose = f"belongs to another writer since claim {claimed}" if claimed else f"has no claim {epoch}: it was created again"
            raise Fenced(f"{topic}/{partition} {whose}.", hint="Only its owner deletes from it; claim it anew to take it over.")

    def identity(self, topic: str) -> TopicIdentity:
        """The topic as it is now. Errors: `UnknownTopic`."""
        return TopicIdentity(self._topics, self._clock, topic)

    def delete_records(self, topic: str, partition: int, offset: int, fence: Callable[[], None]) -> int:
        """Delete below `offset`, if there is something and `fence` raises nothing; return the start."""
        offset = whole(offset)
        with self._readers.lent() as reader:
            bounds = reader.bounds(topic, partition)
        if offset > bounds.end:
            raise BadBounds(f"{topic}/{partition} ends at {bounds.end}, before {offset}.", hint=f"Give at most {bounds.end}.")
        if offset <= bounds.start:
            return bounds.start
        fence()
        return self._topics.delete_before(topic, partition, offset)

    def compact(self, topic: str, partition: int, before: int | None = None, *, part: str = "") -> Compacted:
        self._check_open()
        self._owned(topic, partition, part, "compact")
        raise no_compaction(topic)

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            while self._appending:
                self._changed.wait()
        self._brokers.closing.set()
        self._arrivals.close()
        self._sender.close()
        self._readers.close()
        self._tails.close()
        self._follower.close()
        self._topics.close()

    # -- checks ---------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise closed()

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise ReadOnly("This log was opened for reading only.", hint="Open it without read_only to change it.")

    def _checked(self, reader: PartitionConsumer, topic: str, partition: int, start: int, end: int | None) -> int:
        """The end to read to. Errors: `OffsetGone`, `BadBounds`."""
        bounds = reader.bounds(topic, partition)
        if start < bounds.start:
            raise OffsetGone(
                f"Offset {start} of {topic}/{partition} is gone: it starts at {bounds.start}.", hint=f"Read from {bounds.start} on."
            )
        if start > bounds.end or (end is not None and end > bounds.end):
            raise BadBounds(f"{topic}/{partition} ends at {bounds.end}.", hint=f"Give offsets up to {bounds.end}.")
        return bounds.end if end is None else end

    def _note_foreign(self, topic: str, partition: int) -> None:
        if self._metrics is not None:
            self._metrics.partition(topic, partition).foreign()

    def _look_again(self, topic: str, partition: int) -> None:
        """Called when a broker does not know a partition. Errors: `UnknownTopic`, `UnknownPartition`."""
        self._topics.confirm(topic, partition)


def _fitting(messages: Sequence[Message]) -> int:
    """How many of the first messages one batch of a scan takes: at least one."""
    return max(1, sum(1 for _ in takewhile(lambda size: size <= _SCANNED, accumulate(map(len, messages)))))


def _forked(log: KafkaLog | None) -> None:
    if log is not None and not log._closed:
        log._connect()
