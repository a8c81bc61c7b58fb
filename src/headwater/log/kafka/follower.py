"""Follows claimed partitions: one consumer for all Writers of a log reads every mark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import Timeout
from headwater.log.epochs import EPOCH, LENT, Epochs, Kind, mark
from headwater.log.kafka.brokers import Brokers, transient
from headwater.log.kafka.records import headers_of
from headwater.log.record import Header

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_TURN = 0.05  # seconds that one Writer polls before another one may
_AT_ONCE = 10_000


class Followed:
    """One followed partition. It has read all records below `seen`, and folds them by the rule of claims (`headwater.log.epochs`).

    `lost`: records were deleted before they were read, or the topic was created again. There may have been claims among them, so a
    Writer can no longer know whether it is the owner.
    """

    __slots__ = ("_epochs", "_owners", "_raised", "generation", "lost", "partition", "seen", "topic", "writers")

    def __init__(self, topic: str, partition: int, start: int, generation: str = "") -> None:
        self.topic, self.partition, self.generation = topic, partition, generation
        self.seen = start
        self._epochs = Epochs()
        self._raised: list[tuple[int, int]] = []  # (offset, epoch) of the records that raised the partition's epoch, in order
        self._owners: tuple[list[Header], ...] = ()  # the headers of a record with the partition's epoch and none of its own
        self.lost = False
        self.writers = 0

    def see(self, offset: int, empty: bool, headers: Sequence[Header]) -> Kind:
        """Fold the next record."""
        if headers in self._owners:  # most records are the owner's, and carry nothing but its mark
            self.seen = offset + 1
            return Kind.COUNTED
        before = self._epochs.epoch
        kind = self._epochs.kind(empty, headers, offset)
        if self._epochs.epoch > before:
            self._raised.append((offset, self._epochs.epoch))
            self._owners = tuple([(name, mark(self._epochs.epoch))] for name in (EPOCH, LENT))
        self.seen = offset + 1
        return kind

    def won(self, offset: int, epoch: int) -> bool:
        """Whether the claim at `offset`, which has been seen, made its writer the owner."""
        return (offset, epoch) in self._raised

    def fence(self, epoch: int) -> int | None:
        """The offset of the first read record with a higher epoch; None where there is none."""
        return next((offset for offset, higher in self._raised if higher > epoch), None)

    def begun_anew(self, offset: int, seen: int) -> bool:
        """Whether a record at `offset`, sent after everything below `seen` was read, lies below `seen`. Then it lies in a new topic of this
        name, about which the records that were read tell nothing: the partition is `lost`."""
        self.lost = self.lost or offset < seen
        return offset < seen


class Follower:
    """Follows the partitions that this log's Writers have claimed. Safe for several threads.

    It has no thread: one of the waiting Writers polls the consumer for all of them.
    """

    def __init__(self, brokers: Brokers, foreign: Callable[[str, int], None]) -> None:
        """`foreign` is told the topic and partition of each record that no writer of ours wrote."""
        self._brokers = brokers
        self._foreign = foreign
        self._consumer: Consumer | None = None
        self._followed: dict[tuple[str, int], Followed] = {}
        self._changed = threading.Condition(threading.RLock())  # a collected writer may leave inside of any call, this thread's own, too
        self._looking = False

    def join(self, topic: str, partition: int, start: int, generation: str) -> Followed:
        """Follow a partition from `start` at the latest, for one more writer. `generation`: the topic's."""
        with self._changed:
            followed = self._followed.get((topic, partition))
            if followed is not None and followed.generation != generation:
                followed.lost = True
            if followed is None or followed.lost:
                if self._consumer is None:
                    self._consumer = self._brokers.consumer(wait_ms=100, ahead=_AT_ONCE)
                if followed is not None:
                    self._unfollow(followed)
                followed = self._followed[topic, partition] = Followed(topic, partition, start, generation)
                self._consumer.incremental_assign([self._brokers.kafka.TopicPartition(topic, partition, start)])
            followed.writers += 1
            return followed

    def leave(self, followed: Followed) -> None:
        """End the following for one writer."""
        if self._brokers.left_behind:  # a Writer of the parent is freed: its locks may be held by threads that this process does not have
            return
        with self._changed:
            followed.writers -= 1
            if not followed.writers and self._followed.get((followed.topic, followed.partition)) is followed:
                self._unfollow(followed)

    def reach(self, followed: Followed, offset: int) -> None:
        """Wait until the record at `offset` has been seen, or `lost`. Errors: `Timeout`."""
        self._brokers.check_here()
        deadline = self._brokers.deadline()
        while followed.seen <= offset and not followed.lost:
            with self._changed:
                if self._looking:
                    self._changed.wait(_TURN)
                    continue
                self._looking = True
            messages: list[Message] = []
            try:
                messages = self._look()
            finally:
                with self._changed:
                    self._looking = False
                    self._note(messages)
                    self._changed.notify_all()
            if not messages and self._brokers.clock.monotonic() >= deadline:
                raise Timeout(f"{followed.topic}/{followed.partition} could not be read in time.", hint="Look at the brokers' logs.")

    def check_here(self) -> None:
        """Errors: `Closed` in a forked child of the process that follows."""
        self._brokers.check_here()

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
        messages = self._consumer.consume(1, _TURN)
        return messages + self._consumer.consume(_AT_ONCE, 0) if messages else messages

    def _note(self, messages: list[Message]) -> None:
        followed, place = None, ("", -1)
        for message in messages:
            error = message.error()
            if error is not None:
                self._trouble(message, error)
                continue
            here = (message.topic(), message.partition())
            if here != place:
                place, followed = here, self._followed.get(here)  # type: ignore[assignment, arg-type]
            if followed is None:
                continue
            empty = not len(message) and message.value() is None and message.key() is None
            if followed.see(message.offset(), empty, headers_of(message)) is Kind.FOREIGN:  # type: ignore[arg-type]
                self._foreign(followed.topic, followed.partition)

    def _trouble(self, message: Message, error: KafkaError) -> None:
        followed = self._followed.get((message.topic(), message.partition()))  # type: ignore[arg-type]
        if followed is not None and not transient(error):
            followed.lost = True

    def _unfollow(self, followed: Followed) -> None:
        del self._followed[followed.topic, followed.partition]
        if self._consumer is not None:
            self._consumer.incremental_unassign([self._brokers.kafka.TopicPartition(followed.topic, followed.partition)])
