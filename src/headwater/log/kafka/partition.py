"""One partition of the log on Kafka, with the calls that claims need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headwater.log.guard import created_again
from headwater.log.kafka.identity import TopicIdentity
from headwater.log.record import Bounds, Header, Record

if TYPE_CHECKING:
    from headwater.log.kafka.log import KafkaLog


class KafkaPartition:
    """See `ClaimablePartition`."""

    def __init__(self, log: KafkaLog, topic: str, partition: int) -> None:
        self._log = log
        self.topic, self.partition = topic, partition
        self.appending = log.appending

    def bounds(self) -> Bounds:
        return self._log.bounds(self.topic, self.partition)

    def read(self, start: int, max_bytes: int) -> list[Record]:
        return self._log.read(self.topic, self.partition, start, limit=10_000, max_bytes=max_bytes)

    def send(self, records: Sequence[Record], own: Header) -> Sequence[int]:
        return self._log.send(self.topic, self.partition, records, own)

    def check_generation(self, generation: str) -> None:
        if generation not in ("", self._log.topic(self.topic).generation):
            raise created_again(f"{self.topic}/{self.partition}")

    def identity(self) -> TopicIdentity:
        return self._log.identity(self.topic)

    def check_claim(self, epoch: int) -> None:
        self._log.check_claim(self.topic, self.partition, epoch)

    def delete_records(self, offset: int, fence: Callable[[], None]) -> int:
        return self._log.delete_records(self.topic, self.partition, offset, fence)
