"""Following claimed partitions: one consumer for all of a log's writers sees every claim, and how far it has seen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from headwater.core.errors import Timeout
from headwater.log.epochs import marks
from headwater.log.kafka.brokers import Brokers, passing
from headwater.log.kafka.records import headers_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_TURN = 0.05  # seconds that one thread waits for records before it lets another one look
_AT_ONCE = 10_000


class Followed:
    """One partition: everything below `seen` has been seen, and `claims` holds (offset, epoch) of the claims in there, in order.

    `lost` once records were deleted before they were seen: there may have been claims among them, so nothing more can be said.
    """

    __slots__ = ("claims", "lost", "partition", "seen", "topic", "writers")

    def __init__(self, topic: str, partition: int, start: int) -> None:
        self.topic, self.partition = topic, partition
        self.seen = start
        self.claims: list[tuple[int, int]] = []
        self.lost = False
        self.writers = 0


class Follower:
    """Sees the partitions that this log's writers have claimed. Safe for several threads.

    There is no thread of its own: of the writers that wait, one looks for all of them.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._consumer: Consumer | None = None
        self._followed: dict[tuple[str, int], Followed] = {}
        self._changed = threading.Condition(threading.RLock())  # a collected writer may leave inside of any call, this thread's own, too
        self._looking = False

    def join(self, topic: str, partition: int, start: int) -> Followed:
        """Follow a partition from `start` at the latest, for one more writer."""
        with self._changed:
            followed = self._followed.get((topic, partition))
            if followed is None or followed.lost:
                if self._consumer is None:
                    self._consumer = self._brokers.consumer(wait_ms=100, ahead=_AT_ONCE)
                if followed is not None:
                    self._unfollow(followed)
                followed = self._followed[topic, partition] = Followed(topic, partition, start)
                self._consumer.incremental_assign([self._brokers.kafka.TopicPartition(topic, partition, start)])
            followed.writers += 1
            return followed

    def leave(self, followed: Followed) -> None:
        """One writer needs it no longer."""
        with self._changed:
            followed.writers -= 1
            if not followed.writers and self._followed.get((followed.topic, followed.partition)) is followed:
                self._unfollow(followed)

    def reach(self, followed: Followed, offset: int) -> None:
        """Wait until the record at `offset` has been seen, or `lost`. Errors: `Timeout`."""
        deadline = self._brokers.deadline()
        while followed.seen <= offset and not followed.lost:
            with self._changed:
                if self._looking:
                    self._changed.wait(_TURN)
                    continue
                self._looking = True
            found: list[Message] = []
            try:
                found = self._look()
            finally:
                with self._changed:
                    self._looking = False
                    self._note(found)
                    self._changed.notify_all()
            if not found and self._brokers.clock.monotonic() >= deadline:
                raise Timeout(f"{followed.topic}/{followed.partition} could not be read in time.", hint="Look at the brokers' logs.")

    def close(self) -> None:
        with self._changed:
            while self._looking:
                self._changed.wait(_TURN)
            consumer, self._consumer = self._consumer, None
            self._followed.clear()
        if consumer is not None:
            consumer.close()

    def _look(self) -> list[Message]:
        assert self._consumer is not None
        found = self._consumer.consume(1, _TURN)
        return found + self._consumer.consume(_AT_ONCE, 0) if found else found

    def _note(self, found: list[Message]) -> None:
        followed, place = None, ("", -1)
        for message in found:
            error = message.error()
            if error is not None:
                self._trouble(message, error)
                continue
            here = (message.topic(), message.partition())
            if here != place:
                place, followed = here, self._followed.get(here)  # type: ignore[assignment, arg-type]
            if followed is None:
                continue
            offset: int = message.offset()  # type: ignore[assignment]
            if not len(message):  # claims have no value: the headers of all the others need not be unpacked
                claim, _ = marks(headers_of(message))
                if claim is not None:
                    followed.claims.append((offset, claim))
            followed.seen = offset + 1

    def _trouble(self, message: Message, error: KafkaError) -> None:
        followed = self._followed.get((message.topic(), message.partition()))  # type: ignore[arg-type]
        if followed is not None and not passing(error):
            followed.lost = True

    def _unfollow(self, followed: Followed) -> None:
        del self._followed[followed.topic, followed.partition]
        if self._consumer is not None:
            self._consumer.incremental_unassign([self._brokers.kafka.TopicPartition(followed.topic, followed.partition)])
