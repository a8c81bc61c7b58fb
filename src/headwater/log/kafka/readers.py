"""Reads records: a pool of consumers, each lent to one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from headwater.core.errors import OffsetGone
from headwater.log.kafka.brokers import GONE, Brokers, closed, transient
from headwater.log.record import Bounds

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

T = TypeVar("T")

_PAUSE = 0.002  # seconds to wait for a record before asking for the position again
_IDLE = 8  # consumers kept for the next reader


class PartitionConsumer:
    """One consumer, reading one partition at a time. `gone` is called when the topic or partition is not there, and raises if so."""

    def __init__(self, brokers: Brokers, make: Callable[[], Consumer], gone: Callable[[str, int], None]) -> None:
        self._brokers = brokers
        self._make = make
        self._consumer = make()
        self._gone = gone
        self._place = ("", 0)
        self._next = 0

    def bounds(self, topic: str, partition: int) -> Bounds:
        """The start, and the high watermark: the end of what is acknowledged, as the partition's leader knows it."""
        place = self._brokers.kafka.TopicPartition(topic, partition)

        def request() -> Bounds:
            low_high = self._consumer.get_watermark_offsets(place, timeout=self._brokers.patience)
            if low_high is None:
                raise self._brokers.kafka.KafkaException(self._brokers.kafka.KafkaError(self._brokers.kafka.KafkaError._TIMED_OUT))
            return Bounds(*low_high)

        return self._ask(f"asking for the bounds of {topic}/{partition}", request, topic, partition)

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """The first offset at or after a time, None when there is none."""
        place = self._brokers.kafka.TopicPartition(topic, partition, timestamp)

        def request() -> int | None:
            (answer,) = self._consumer.offsets_for_times([place], timeout=self._brokers.patience)
            if answer.error is not None:
                raise self._brokers.kafka.KafkaException(answer.error)
            return None if answer.offset < 0 else int(answer.offset)

        return self._ask(f"searching {topic}/{partition} by time", request, topic, partition)

    def _ask(self, what: str, request: Callable[[], T], topic: str, partition: int) -> T:
        return self._brokers.ask(what, request, gone=lambda: self._gone(topic, partition), renew=self._renew)

    def _renew(self) -> None:
        self._consumer.close()
        self._consumer = self._make()

    def begin(self, topic: str, partition: int, start: int) -> None:
        """Read this partition from `start` on."""
        self._place, self._next = (topic, partition), start
        self._consumer.assign([self._brokers.kafka.TopicPartition(topic, partition, start)])

    def rest(self) -> None:
        """Stop fetching."""
        self._brokers.check_here()
        self._consumer.unassign()

    def take(self, count: int, seconds: float) -> list[Message]:
        """Up to `count` records that are there, waiting at most `seconds` for the first one."""
        self._brokers.check_here()
        messages = self._consumer.consume(1, seconds)  # asked for more, the client would wait until it has all of them
        if messages and count > 1:
            messages += self._consumer.consume(count - 1, 0)
        if not messages:
            return messages
        for message in messages:
            error = message.error()
            if error is not None:
                self._trouble(error)
                messages = [each for each in messages if each.error() is None]
                break
        if messages:
            self._next = messages[-1].offset() + 1  # type: ignore[operator]
        return messages

    def position(self) -> int:
        """The next offset to be read. Not the last record's plus one: brokers' own records take offsets, and are never returned."""
        (place,) = self._consumer.position([self._brokers.kafka.TopicPartition(*self._place)])
        return max(self._next, int(place.offset))

    def until(self, end: int, count: int) -> Iterator[list[Message]]:
        """The records below `end`, at most `count` at a time. Ends when everything below `end` has been passed.

        Errors: `Unreachable` or `Timeout` when nothing comes for too long.
        """
        deadline = self._brokers.deadline()
        while self._next < end:
            messages = self.take(count, _PAUSE)
            if messages:
                deadline = self._brokers.deadline()
                if self._next > end:
                    messages = [message for message in messages if message.offset() < end]  # type: ignore[operator]
                if messages:
                    yield messages
            elif self.position() >= end:
                return
            elif self._brokers.late(deadline):
                raise self._brokers.unreachable(f"reading {self._place[0]}/{self._place[1]}")

    def close(self) -> None:
        if not self._brokers.left_behind:
            self._consumer.close()

    def _trouble(self, error: KafkaError) -> None:
        """Raise for an error that is not transient."""
        topic, partition = self._place
        if error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            raise OffsetGone(
                f"Offset {self._next} of {topic}/{partition} was deleted while it was being read.",
                hint=f"Read from the start again: headwater log show {topic}",
            )
        if error.name() in GONE:
            self._gone(topic, partition)
        elif not transient(error):
            raise self._brokers.problem(error, f"reading {topic}/{partition}")


class Readers:
    """Readers to borrow. Safe for several threads.

    `wait_ms` and `ahead` as in `Brokers.consumer`.
    """

    def __init__(self, brokers: Brokers, gone: Callable[[str, int], None], *, wait_ms: int, ahead: int) -> None:
        self._brokers = brokers
        self._gone = gone
        self._wait_ms, self._ahead = wait_ms, ahead
        self._lock = threading.Lock()
        self._idle: list[PartitionConsumer] = []
        self._closed = False

    @contextmanager
    def lent(self) -> Iterator[PartitionConsumer]:
        """A reader for this thread. After an error it is closed, because records of the failed read may be left in its queue."""
        with self._lock:
            if self._closed:
                raise closed()
            reader = self._idle.pop() if self._idle else None
        if reader is None:
            reader = PartitionConsumer(self._brokers, lambda: self._brokers.consumer(wait_ms=self._wait_ms, ahead=self._ahead), self._gone)
        kept = False
        try:
            yield reader
            reader.rest()
            with self._lock:
                kept = not self._closed and len(self._idle) < _IDLE
                if kept:
                    self._idle.append(reader)
        finally:
            if not kept:
                reader.close()

    def close(self) -> None:
        """Close the idle readers; a lent one is closed when it is returned."""
        with self._lock:
            self._closed = True
            resting, self._idle = self._idle, []
        for reader in resting:
            reader.close()
