"""The log as the door offers it: `headwater.log.Log` for asyncio, the same over a directory and over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings


class AsyncLog(ABC):
    """Records in partitions of topics.

    Guarantees and errors are those of `headwater.log.Log`: an offset that was returned is durable, readers see nothing that is not.
    Over HTTP two errors join: `Unreachable` (nothing was sent) and `OutcomeUnknown` (the answer to a write was lost, so it may or
    may not be there; read before writing again). Calls may be made from many tasks at once.
    """

    @abstractmethod
    async def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None) -> Topic:
        """Make a topic, or return the one that is there with the same partitions and settings. Errors: `AlreadyExists`, `BadInput`."""

    @abstractmethod
    async def topics(self) -> list[Topic]:
        """Every topic, sorted by name."""

    @abstractmethod
    async def topic(self, name: str) -> Topic:
        """One topic, or `UnknownTopic`."""

    @abstractmethod
    async def delete_topic(self, name: str) -> None:
        """Remove a topic and all of its records, or `UnknownTopic`."""

    @abstractmethod
    async def append(self, topic: str, partition: int, records: Sequence[Record]) -> Sequence[int]:
        """Append the records in order; return their offsets once they are durable. Callers at the same time share one sync."""

    @abstractmethod
    async def bounds(self, topic: str, partition: int) -> Bounds:
        """The first offset still kept and the offset after the last durable record."""

    @abstractmethod
    async def read(self, topic: str, partition: int, start: int, *, limit: int = 1000) -> list[Record]:
        """Up to `limit` durable records from `start` on, at least one when there is one; an empty list at the end.

        Errors: `OffsetGone` below the start, `BadBounds` beyond the end.
        """

    @abstractmethod
    def tail(self, topic: str, partition: int, start: int | None = None) -> AsyncIterator[Record]:
        """Records from `start` on (None: from the end) as they become durable, for ever. Errors as `read`."""

    @abstractmethod
    async def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        """The first offset whose record's timestamp (ms) is at or after `timestamp`; the end when there is none."""

    @abstractmethod
    async def delete_before(self, topic: str, partition: int, offset: int) -> int:
        """Let go of every record below `offset`; return the new start. Errors: `BadBounds` beyond the end."""

    @abstractmethod
    async def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        """Keep, among the closed segments and below `before`, the last record of each key. Kafka: `Unsupported`."""

    @abstractmethod
    async def aclose(self) -> None:
        """End the appends under way, then let go. Everything after is `Closed`; closing twice is no error."""
