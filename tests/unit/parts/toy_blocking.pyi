"""Types of the blocking door. Written by `python -m tools.blocking_stub`; a test compares the two."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from tests.unit.parts.toy import Numbers

from headwater.client.door import Headwater
from headwater.client.jobs import JobStatus
from headwater.core.clock import Clock
from headwater.core.config import Config
from headwater.log.answers import PartitionContent, Placed
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings

class BlockingLog:
    """Records in partitions of topics.

    Guarantees and errors are those of `headwater.log.Log`: a returned offset is durable, and readers see only durable records.
    Over HTTP two errors join: `Unreachable` (nothing was sent) and `OutcomeUnknown` (the answer to a write was lost, so it may or
    may not be there; read before writing again). Calls may be made from many tasks at once.
    """

    def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | Mapping[str, str] | None = None) -> Topic:
        """Make a topic, or return the one that is there with the same partitions and settings. Errors: `AlreadyExists`, `BadInput`.

        `settings`: all of them, or some as text, such as {"segment": "64MiB"}; missing ones are as configured.
        """

    def topics(self) -> list[Topic]:
        """Every topic, sorted by name."""

    def topic(self, name: str) -> Topic:
        """One topic, or `UnknownTopic`."""

    def delete_topic(self, name: str) -> None:
        """Remove a topic and all of its records, or `UnknownTopic`."""

    def append(self, topic: str, partition: int, records: Sequence[Record]) -> Sequence[int]:
        """Append the records in order; return their offsets once they are durable. Callers at the same time share one sync."""

    def append_by_key(self, topic: str, records: Sequence[Record]) -> list[Placed]:
        """Append each record to the partition of its key, as Kafka's clients do; return partitions and offsets once they are durable.

        The records of one partition are one batch, in order. Errors: as `append`, when nothing was appended; `OutcomeUnknown`, naming the
        appended ones, when some partitions succeeded and others failed; `MissingKey` for a record without a key where there are several
        partitions.
        """

    def stats(self, topic: str) -> list[PartitionContent]:
        """Statistics of each partition of a topic: offsets, segments, bytes, cut torn tails, damage."""

    def bounds(self, topic: str, partition: int) -> Bounds:
        """The first offset still kept and the offset after the last durable record."""

    def read(
        self, topic: str, partition: int, start: int, *, limit: int = 1000, stop: int | None = None, key: bytes | None = None
    ) -> list[Record]:
        """Up to `limit` durable records from `start` on, at least one when there is one; an empty list at the end.

        `stop`: only records before this offset. `key`: only records with this key. Errors: `OffsetGone` below the start, `BadBounds`
        beyond the end.
        """

    def tail(self, topic: str, partition: int, start: int | None = None) -> Generator[Record]:
        """Records from `start` on (None: from the end) as they become durable, for ever. Errors as `read`."""

    def tail_topic(self, topic: str, starts: Mapping[int, int] | None = None) -> Generator[list[tuple[int, Record]]]:
        """Records of several partitions as they become durable, in batches of (partition, record), for ever; order holds within one.

        `starts`: where to begin, by partition; None: every partition from its end. A batch is empty where none comes for 0.1 s. Errors
        as `read`.
        """

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        """The first offset whose record's timestamp (ms) is at or after `timestamp`; the end when there is none."""

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        """Delete every record below `offset`; return the new start. Errors: `BadBounds` beyond the end."""

    def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        """Keep, among the closed segments and below `before`, the last record of each key. Kafka: `Unsupported`."""

    def close(self) -> None:
        """Finish the appends under way, then close. Later calls raise `Closed`; closing twice is no error."""

class BlockingToy:
    """Counts down."""

    def numbers(self, start: int, *, if_match: str | None = None) -> Numbers:
        """Count down."""

    def text(self, start: int) -> bytes:
        """Count down as text."""

    def follow(self, start: int) -> Generator[int]:
        """Count down, number by number."""

    def slowly(self, start: int) -> BlockingJob[Numbers]:
        """Count down as a job."""

A = TypeVar("A")

class BlockingJob(Generic[A]):
    """A long operation under way: `job.status()`, `job.result()`, `job.cancel()`."""

    id: str

    def status(self, wait: int = 0) -> JobStatus:
        """Its progress; waits up to `wait` seconds for its end."""

    def cancel(self) -> JobStatus:
        """Cancel it. Its finished changes stay."""

    def result(self) -> A:
        """Its answer, once it has ended. Errors: those of its operation, `Cancelled`."""

def open_blocking(
    where: str | Path | None = None,
    *,
    create: bool = False,
    config: Config | str | Path | None = None,
    token: str | None = None,
    ca: str | Path | None = None,
    clock: Clock | None = None,
) -> Blocking:
    """`headwater.open` for code without asyncio, and for notebooks: `with headwater.open_blocking("./data") as hw: hw.log.topics()`.

    The door is open when this returns, so a notebook needs no `with`: `hw.close()` closes it, too. Errors: those of `headwater.open`;
    `RuntimeError` inside a running event loop, which a blocking call would stop: use `headwater.open` there. It works in a notebook,
    whose loop waits for each cell anyway."""

class Blocking:
    """The door with blocking calls. Several threads may use it and the objects that it returns."""

    address: str | None
    log: BlockingLog
    toy: BlockingToy
    def __init__(self, door: Headwater) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def close(self) -> None:
        """Close the door and end the thread. Closing twice is no error."""
