"""Sends records: an idempotent producer, and the thread that receives the delivery reports."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import HeadwaterError
from headwater.log.kafka.brokers import BATCH, GONE, Brokers, closed
from headwater.log.kafka.records import Outgoing
from headwater.log.record import unknown_topic

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
_PURGE = 5.0
_FRAME = 100  # bytes that a record takes in a request beyond its own, at most
_REQUEST_RECORDS = 10_000  # the client's default for the most records of one request


class Spent(Exception):
    """The producer had an error after which it cannot keep the order. It has sent nothing of this batch: use a new producer."""


class SentBatch:
    """The delivery reports of one batch."""

    __slots__ = ("_count", "_reported", "done", "error", "offsets", "refused", "unplaced")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.unplaced = 0  # written records whose offsets no report has told
        self.error: KafkaError | None = None  # the first one that was reported
        self.refused: KafkaError | None = None  # why the client took no more records; reports say more about a broker's refusal
        self.done = threading.Event()
        self._count = -1
        self._reported = 0

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Called once for each record that was handed over, by the polling thread alone."""
        if error is None:
            offset = message.offset()
            if offset is None or offset < 0:
                # After a change of leaders a broker may answer a second try with "duplicate", without offsets.
                self.unplaced += 1
            else:
                self.offsets.append(offset)
        elif self.error is None:
            self.error = error
        self._reported += 1
        if self._reported == self._count:
            self.done.set()

    def handed_over(self, count: int, refused: KafkaError | None) -> None:
        """Tell how many reports will come. Called once, by the sending thread."""
        self.refused, self._count = refused, count
        if self._reported == count:  # all were reported before the count was known
            self.done.set()


class ProducerDelivery:
    """One producer. Safe for several threads; a batch's records are handed over together, so that batches of this process do not mix."""

    def __init__(self, brokers: Brokers, batch: int, *, gapless: bool) -> None:
        self._brokers = brokers
        self._producer: Producer = brokers.producer(batch, gapless=gapless)
        self._under_way: set[SentBatch] = set()
        self._fatal: KafkaError | None = None
        self._handing_over = threading.Lock()
        self._handed_over = threading.Semaphore(0)
        self._stopping = False  # hand nothing over any more
        self._ending = False  # and nobody is handing over: the polling thread may end when all is reported
        self._thread = threading.Thread(target=self._poll, name="headwater-kafka-delivery", daemon=True)
        self._thread.start()

    def send(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> list[int]:
        """Send the records in order; return their offsets once all in-sync replicas have them.

        Errors: `OutcomeUnknown` where a leading part may be there; `UnknownTopic`, `TooLarge` and the like where nothing is; `Spent`.
        """
        sent, clock = SentBatch(), self._brokers.clock
        deadline = self._brokers.deadline()
        with self._handing_over:
            self._under_way.add(sent)
            count, refused = self._hand_over(topic, partition, batch, sent, deadline)
        if not count and (self._stopping or (refused is not None and refused.fatal())):
            self._under_way.discard(sent)
            raise Spent
        sent.handed_over(count, refused)
        self._handed_over.release()
        if not clock.wait(sent.done, deadline - clock.monotonic()):
            self._give_up()
            if not clock.wait(sent.done, _PURGE):  # purged records are reported at once
                sent.error = sent.error or self._error("_MSG_TIMED_OUT")
        self._under_way.discard(sent)
        error = sent.error or sent.refused
        if error is not None:
            raise self._failure(topic, partition, error, len(sent.offsets) + sent.unplaced, len(batch))
        if sent.unplaced:
            why = f"Kafka has written all {len(batch)} records, but has not told their offsets."
            raise self._brokers.unknown(f"an append to {topic}/{partition}", why)
        # The producer keeps the order of the records, but reports of different requests might overtake each other.
        sent.offsets.sort()
        return sent.offsets

    def look_again(self, topic: str) -> None:
        """Ask the brokers for the topic's metadata."""
        self._brokers.ask(f"describing the topic {topic}", lambda: self._producer.list_topics(topic, self._brokers.patience))

    def stop(self) -> None:
        """End once all that is under way has been reported."""
        self._stopping = True
        with self._handing_over:
            self._ending = True
        self._handed_over.release()  # the polling thread may be idle

    def close(self) -> None:
        """`stop`, and wait for it."""
        self.stop()
        self._thread.join()

    def _give_up(self) -> None:
        """Send nothing more. Purges the whole queue at once: otherwise the client might drop the front of a batch and send the rest."""
        self._stopping = True
        with self._handing_over:  # whoever hands over has stopped
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._ending = True

    def _hand_over(
        self, topic: str, partition: int, batch: Sequence[Outgoing], sent: SentBatch, deadline: float
    ) -> tuple[int, KafkaError | None]:
        """How many records the client has taken, and why it did not take the next one: after that one, none may follow."""
        produce, report = self._producer.produce, sent.report
        count = 0
        while count < len(batch):
            if self._stopping:  # the polling thread ends soon: later records would get no report
                return count, self._error("_PURGE_QUEUE")
            key, value, headers, timestamp = batch[count]
            try:
                produce(topic, value, key, partition, report, timestamp=timestamp, headers=headers or None)  # type: ignore[arg-type]
            except BufferError:  # the client's queue is full: the polling thread empties it
                if self._brokers.clock.monotonic() >= deadline:
                    return count, self._error("_MSG_TIMED_OUT")
                self._handed_over.release()
                self._brokers.clock.wait(sent.done, _FULL_PAUSE)
            except self._brokers.kafka.KafkaException as raised:
                return count, raised.args[0]
            else:
                count += 1
        return count, None

    def _error(self, name: str) -> KafkaError:
        kind = self._brokers.kafka.KafkaError
        error: KafkaError = kind(getattr(kind, name))
        return error

    def _poll(self) -> None:
        producer = self._producer
        while True:
            if len(producer) == 0:
                if self._fatal is not None:
                    self._end_all(self._fatal)
                if self._ending:
                    return
                self._handed_over.acquire(timeout=_IDLE)
            try:
                producer.flush(_FLUSH)  # sends what was handed over without waiting for more, and calls `report` until all is reported
            except Exception as raised:
                # A fatal error: the client raises it here, or out of the callback that it called. The producer sends no more records,
                # but still reports those that it holds.
                self._stopping = True
                self._fatal = self._fatal or _fatal(raised) or self._error("_FATAL")
                self._brokers.clock.wait(self._brokers.closing, _FULL_PAUSE)

    def _end_all(self, fatal: KafkaError) -> None:
        """End the waiting batches: the producer holds no records, so that their reports were lost when the client raised."""
        with self._handing_over:
            for sent in list(self._under_way):
                sent.error = sent.error or fatal
                sent.done.set()

    def _failure(self, topic: str, partition: int, error: KafkaError, there: int, count: int) -> HeadwaterError:
        if not there and error.name() in GONE:
            return unknown_topic(topic)
        if not there and error.name() in _REFUSED:
            return self._brokers.problem(error, f"appending to {topic}/{partition}")
        parts = f"{there} of {count} records are written, the others may be" if there else f"{count} records may be written"
        return self._brokers.unknown(f"an append to {topic}/{partition}", f"{error.str()}; {parts}.")


def _fatal(raised: BaseException) -> KafkaError | None:
    """The client's fatal error, or the one that made Python raise this one."""
    for error in (raised, raised.__cause__):
        if error is not None and error.args and hasattr(error.args[0], "fatal"):
            kafka_error: KafkaError = error.args[0]
            return kafka_error
    return None


class Deliveries:
    """The producers of a log: one for most appends, one for those that take several requests, and others where a topic's limit is small."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._lock = threading.Lock()
        self._deliveries: dict[tuple[int, bool], ProducerDelivery] = {}
        self._closed = False

    def begin(self) -> None:
        """Make the producer of most topics: its first handshake takes half a second, for which the first append then need not wait."""
        self._of(BATCH, False)

    def send(self, topic: str, partition: int, batch: Sequence[Outgoing], size: int, *, largest: int) -> list[int]:
        """As `ProducerDelivery.send`, never `Spent`. `size`: bytes of all records. `largest`: bytes of the topic's largest request."""
        limit = min(BATCH, largest)
        # Of a batch that takes several requests the first may be refused and the next be written, unless the producer is gapless.
        # A gapless producer does not tell why a broker refused, and then fails the other batches, too: so only such batches go through it.
        several = len(batch) > 1 and (len(batch) > _REQUEST_RECORDS or size + len(batch) * _FRAME > limit)
        while True:
            delivery = self._of(limit, several)
            try:
                return delivery.send(topic, partition, batch)
            except Spent:
                self._drop(limit, several, delivery)

    def look_again(self, topic: str, *, largest: int) -> None:
        """Have the producers ask for the topic's metadata again."""
        with self._lock:
            deliveries = [delivery for (limit, _), delivery in self._deliveries.items() if limit == min(BATCH, largest)]
        for delivery in deliveries:
            delivery.look_again(topic)

    def _of(self, limit: int, gapless: bool) -> ProducerDelivery:
        with self._lock:
            if self._closed:
                raise closed()
            if (limit, gapless) not in self._deliveries:
                self._deliveries[limit, gapless] = ProducerDelivery(self._brokers, limit, gapless=gapless)
            return self._deliveries[limit, gapless]

    def _drop(self, limit: int, gapless: bool, delivery: ProducerDelivery) -> None:
        with self._lock:
            if self._deliveries.get((limit, gapless)) is delivery:
                del self._deliveries[limit, gapless]
        delivery.stop()

    def close(self) -> None:
        """Wait for what is under way, then stop."""
        with self._lock:
            self._closed = True
            open_ones = list(self._deliveries.values())
            self._deliveries.clear()
        for delivery in open_ones:
            delivery.close()
