"""Sends records of one log: checks them against the limits of their topic, hands them over, waits for the replicas."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.clock import Clock
from headwater.core.errors import BadInput, UnknownTopic
from headwater.core.metrics import LogMetrics
from headwater.log.kafka.brokers import Brokers
from headwater.log.kafka.delivery import Deliveries
from headwater.log.kafka.records import Outgoing, check_limits, outgoing
from headwater.log.kafka.topics import FRAMING, KafkaTopics
from headwater.log.record import Header, Record


class RecordSender:
    """Safe for several threads. A refused call sends nothing: all its records are checked before the first one is sent."""

    def __init__(self, brokers: Brokers, topics: KafkaTopics, *, clock: Clock, metrics: LogMetrics | None) -> None:
        self._brokers, self._topics, self._clock, self._metrics = brokers, topics, clock, metrics
        self._deliveries = Deliveries(brokers)

    def begin(self) -> None:
        """Connect before the first append, which then need not wait for the handshake."""
        self._deliveries.begin()

    def check(self, topic: str, records: Sequence[Record]) -> None:
        """Errors: `BadInput` and `TooLarge` for records that the topic does not take; `UnknownTopic`."""
        self._topics.place(topic, 0)
        self._outgoing(topic, records, None)

    def send(self, topic: str, partition: int, records: Sequence[Record], mark: Header | None) -> Sequence[int]:
        """Append the records; return their offsets. `mark`: a header of the log's own, which each record gets."""
        began = self._clock.monotonic()
        generation = self._topics.place(topic, partition).generation
        batch, size = self._outgoing(topic, records, mark)
        offsets = self._delivered(topic, partition, batch, size, generation if mark else "")
        if self._metrics is not None:
            self._metrics.partition(topic, partition).appended(len(offsets), self._clock.monotonic() - began, offsets[-1] + 1)
        return offsets

    def close(self) -> None:
        """Wait for the records under way, then stop."""
        self._deliveries.close()

    def _outgoing(self, topic: str, records: Sequence[Record], mark: Header | None) -> tuple[list[Outgoing], int]:
        now, limits = self._clock.now_ms(), self._topics.limits(topic)
        try:
            return check_limits(outgoing(records, now=now, limit=limits.max_record, mark=mark), now, limits)
        except BadInput:
            self._topics.get(topic)
            if (newer := self._topics.limits(topic)) == limits:
                raise
        # Others have changed the topic's limits, or created the topic again, since this log described it.
        return check_limits(outgoing(records, now=now, limit=newer.max_record, mark=mark), now, newer)

    def _delivered(self, topic: str, partition: int, batch: Sequence[Outgoing], size: int, generation: str) -> list[int]:
        """`generation`: the only topic of this name that may get the records, as those of a Writer; "" for any."""
        deadline = self._brokers.deadline()
        while True:
            largest = self._topics.limits(topic).max_record + FRAMING
            try:
                return self._deliveries.send(topic, partition, batch, size, largest=largest)
            except UnknownTopic:
                self._topics.confirm(topic, partition)
                if self._brokers.late(deadline) or (generation and self._topics.place(topic, partition).generation != generation):
                    raise
                # It exists: the producer remembers an earlier topic of this name, which had fewer partitions.
                self._deliveries.look_again(topic, largest=largest)
