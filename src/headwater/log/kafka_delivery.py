"""Sending: an idempotent producer, and the thread that hears what became of each record."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import HeadwaterError
from headwater.log.kafka_brokers import BATCH, GONE, Brokers, closed
from headwater.log.kafka_records import Outgoing
from headwater.log.kafka_topics import unknown_topic

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_REFUSED = frozenset(  # a broker that answers this has written nothing
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "_INVALID_DIFFERENT_RECORD",
    }
)
_FULL_PAUSE = 0.005
_IDLE = 0.2  # seconds between two looks at a producer that has nothing to send
_FLUSH = 1.0


class Spent(Exception):
    """The producer has met an error after which it cannot keep the order. Nothing of this batch was sent: make another producer."""


class Sent:
    """What became of one batch."""

    __slots__ = ("_count", "_reported", "done", "error", "offsets", "unplaced")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.unplaced = 0  # records that are there, at offsets that nobody has told
        self.error: KafkaError | None = None  # the first one
        self.done = threading.Event()
        self._count = -1
        self._reported = 0

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Called once for each record that was handed over, by the polling thread alone."""
        if error is None:
            offset = message.offset()
            if offset is None or offset < 0:
                # After a change of leaders a broker may answer a second try with "is there already", and no more.
                self.unplaced += 1
            else:
                self.offsets.append(offset)
        elif self.error is None:
            self.error = error
        self._reported += 1
        if self._reported == self._count:
            self.done.set()

    def handed_over(self, count: int, refused: KafkaError | None) -> None:
        """So many reports will come. Called once, by the sending thread."""
        if refused is not None:
            self.error = self.error or refused
        self._count = count
        if self._reported == count:  # all were reported before the count was known
            self.done.set()


class Delivery:
    """One producer. Safe for several threads; a batch's records are handed over together, so that batches of this process do not mix."""

    def __init__(self, brokers: Brokers, batch: int) -> None:
        self._brokers = brokers
        self._producer: Producer = brokers.producer(batch)
        self._handing_over = threading.Lock()
        self._handed_over = threading.Semaphore(0)
        self._stopping = False
        self._thread = threading.Thread(target=self._poll, name="headwater-kafka-delivery", daemon=True)
        self._thread.start()

    def send(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> list[int]:
        """Send the records in order; return their offsets once all in-sync replicas have them.

        Errors: `OutcomeUnknown` where a leading part may be there; `UnknownTopic`, `TooLarge` and the like where nothing is; `Spent`.
        """
        sent = Sent()
        with self._handing_over:
            if self._stopping:  # its polling thread may be gone: a record handed over now would never be reported
                raise Spent
            count, refused = self._hand_over(topic, partition, batch, sent)
        if not count and refused is not None and refused.fatal():
            raise Spent
        sent.handed_over(count, refused)
        self._handed_over.release()
        sent.done.wait()  # the client reports each record within message.timeout.ms, whatever happens
        if sent.error is not None:
            raise self._what_became(topic, partition, sent.error, len(sent.offsets) + sent.unplaced, len(batch))
        if sent.unplaced:
            why = f"all {len(batch)} records are there, but Kafka has not told at which offsets."
            raise self._brokers.unknown(f"an append to {topic}/{partition}", why)
        # The producer keeps the order of the records, but reports of different requests might overtake each other.
        sent.offsets.sort()
        return sent.offsets

    def look_again(self, topic: str) -> None:
        """Ask the brokers what the topic is like."""
        self._brokers.ask(f"describing the topic {topic}", lambda: self._producer.list_topics(topic, self._brokers.patience))

    def stop(self) -> None:
        """End once all that is under way has been reported."""
        with self._handing_over:
            self._stopping = True

    def close(self) -> None:
        """`stop`, and wait for it."""
        self.stop()
        self._thread.join()

    def _hand_over(self, topic: str, partition: int, batch: Sequence[Outgoing], sent: Sent) -> tuple[int, KafkaError | None]:
        """How many records the client has taken, and why it did not take the next one: after that one, none may follow."""
        produce, report = self._producer.produce, sent.report
        count = 0
        while count < len(batch):
            key, value, headers, timestamp = batch[count]
            try:
                produce(topic, value, key, partition, report, timestamp=timestamp, headers=headers or None)  # type: ignore[arg-type]
            except BufferError:  # the client's queue is full: the polling thread empties it
                self._handed_over.release()
                self._brokers.clock.wait(sent.done, _FULL_PAUSE)
            except self._brokers.kafka.KafkaException as raised:
                return count, raised.args[0]
            else:
                count += 1
        return count, None

    def _poll(self) -> None:
        producer = self._producer
        while True:
            if len(producer) == 0:
                if self._stopping:
                    return
                self._handed_over.acquire(timeout=_IDLE)
            producer.flush(_FLUSH)  # sends what was handed over without waiting for more, and calls `report`; returns once all is reported

    def _what_became(self, topic: str, partition: int, error: KafkaError, there: int, count: int) -> HeadwaterError:
        if not there and error.name() in GONE:
            return unknown_topic(topic)
        if not there and error.name() in _REFUSED:
            return self._brokers.problem(error, f"appending to {topic}/{partition}")
        parts = f"{there} of {count} records are there, the others may be" if there else f"{count} records may be there"
        return self._brokers.unknown(f"an append to {topic}/{partition}", f"{error.str()}; {parts}.")


class Deliveries:
    """The producers of a log: one for all topics, and one more for each smaller limit on batches."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._lock = threading.Lock()
        self._by_batch: dict[int, Delivery] = {}
        self._closed = False

    def begin(self) -> None:
        """Make the producer of most topics: it needs half a second for its first handshake, which the first append need not wait for."""
        self._of(BATCH)

    def send(self, topic: str, partition: int, batch: Sequence[Outgoing], *, largest: int) -> list[int]:
        """As `Delivery.send`, never `Spent`. `largest`: bytes of the largest batch that the topic takes."""
        size = min(BATCH, largest)
        while True:
            delivery = self._of(size)
            try:
                return delivery.send(topic, partition, batch)
            except Spent:
                self._drop(size, delivery)

    def look_again(self, topic: str, *, largest: int) -> None:
        """Have the producer ask anew what the topic is like."""
        self._of(min(BATCH, largest)).look_again(topic)

    def _of(self, size: int) -> Delivery:
        with self._lock:
            if self._closed:
                raise closed()
            if size not in self._by_batch:
                self._by_batch[size] = Delivery(self._brokers, size)
            return self._by_batch[size]

    def _drop(self, size: int, delivery: Delivery) -> None:
        with self._lock:
            if self._by_batch.get(size) is delivery:
                del self._by_batch[size]
        delivery.stop()

    def close(self) -> None:
        """Wait for what is under way, then stop."""
        with self._lock:
            self._closed = True
            open_ones = list(self._by_batch.values())
            self._by_batch.clear()
        for delivery in open_ones:
            delivery.close()
