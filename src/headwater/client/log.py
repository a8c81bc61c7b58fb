"""The door's log: `headwater.log.Log` for asyncio, over a directory or over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing

from headwater.client.merge import merged
from headwater.core.errors import BadInput
from headwater.log.answers import PartitionContent, Placed
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings


class AsyncLog(ABC):
    """Records in partitions of topics.

    Guarantees and errors are those of `headwater.log.Log`: a returned offset is durable, and readers see only durable records.
    Over HTTP two errors join: `Unreachable` (nothing was sent) and `OutcomeUnknown` (the answer to a write was lost, so it may or
    may not be there; read before writing again). Calls may be made from many tasks at once.
    """

    @abstractmethod
    async def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | Mapping[str, str] | None = None) -> Topic:
        """Make a topic, or return the one that is there with the same partitions and settings. Errors: `AlreadyExists`, `BadInput`.

        `settings`: all of them, or some as text, such as {"segment": "64MiB"}; missing ones are as configured.
        """

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
    async def append_by_key(self, topic: str, records: Sequence[Record]) -> list[Placed]:
        """Append each record to the partition of its key, as Kafka's clients do; return partitions and offsets once they are durable.

        The records of one partition are one batch, in order. Errors: as `append`, when nothing was appended; `OutcomeUnknown`, naming the
        appended ones, when some partitions succeeded and others failed; `MissingKey` for a record without a key where there are several
        partitions.
        """

    @abstractmethod
    async def stats(self, topic: str) -> list[PartitionContent]:
        """Statistics of each partition of a topic: offsets, segments, bytes, cut torn tails, damage."""

    @abstractmethod
    async def bounds(self, topic: str, partition: int) -> Bounds:
        """The first offset still kept and the offset after the last durable record."""

    @abstractmethod
    async def read(
        self, topic: str, partition: int, start: int, *, limit: int = 1000, stop: int | None = None, key: bytes | None = None
    ) -> list[Record]:
        """Up to `limit` durable records from `start` on, at least one when there is one; an empty list at the end.

        `stop`: only records before this offset. `key`: only records with this key. Errors: `OffsetGone` below the start, `BadBounds`
        beyond the end.
        """

    @abstractmethod
    def tail(self, topic: str, partition: int, start: int | None = None) -> AsyncIterator[Record]:
        """Records from `start` on (None: from the end) as they become durable, for ever. Errors as `read`."""

    async def tail_topic(self, topic: str, starts: Mapping[int, int] | None = None) -> AsyncIterator[list[tuple[int, Record]]]:
        """Records of several partitions as they become durable, in batches of (partition, record), for ever; order holds within one.

        `starts`: where to begin, by partition; None: every partition from its end. A batch is empty where none comes for 0.1 s. Errors
        as `read`.
        """
        if starts is None:
            starts = {number: (await self.bounds(topic, number)).end for number in range((await self.topic(topic)).partitions)}
        elif not isinstance(starts, Mapping):
            raise BadInput(f"{starts!r:.60} names no starts.", hint="Give an offset by partition, such as {0: 5}; None is from the end.")
        tails = {number: self.tail(topic, number, start) for number, start in starts.items()}
        async with aclosing(merged(tails)) as batches:
            async for batch in batches:
                yield batch

    @abstractmethod
    async def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        """The first offset whose record's timestamp (ms) is at or after `timestamp`; the end when there is none."""

    @abstractmethod
    async def delete_before(self, topic: str, partition: int, offset: int) -> int:
        """Delete every record below `offset`; return the new start. Errors: `BadBounds` beyond the end."""

    @abstractmethod
    async def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        """Keep, among the closed segments and below `before`, the last record of each key. Kafka: `Unsupported`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Finish the appends under way, then close. Later calls raise `Closed`; closing twice is no error."""
