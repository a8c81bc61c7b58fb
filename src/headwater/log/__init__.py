"""The log: records in partitions of topics, numbered by offset. Every other part of headwater is a fold of it.

Two engines keep one promise: `embedded` (segment files in a directory, nothing to install) and `kafka` (brokers).
Open one with `headwater.log.opening.open_log`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from headwater.log.address import Engine, LogAddress
from headwater.log.guard import Guard
from headwater.log.record import Bounds, Compacted, Header, Mode, Record, Topic, TopicSettings

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

__all__ = [
    "Bounds",
    "Compacted",
    "Engine",
    "Guard",
    "Header",
    "Log",
    "LogAddress",
    "Mode",
    "Record",
    "Topic",
    "TopicSettings",
    "Watching",
    "Writer",
]


class Log(ABC):
    """Records in partitions of topics. Blocking, and safe to call from several threads at once.

    Guarantees
      - An offset that `append` returned is durable: on disk and synced (embedded), or replicated to the in-sync
        replicas (kafka). It survives the death of this process; the embedded one survives the loss of power.
      - Offsets of a partition only grow, and order is the order of offsets. Holes are allowed (compaction, brokers'
        own records).
      - Readers never see a record that is not durable, and never see bytes that fail their checksum: those raise `Damaged`.

    Errors
      - `UnknownTopic`, `UnknownPartition`, `BadInput`, `TooLarge`, `DiskFull`, `ReadOnly`, `Fenced`, `Closed` leave the log as it was.
      - `OwnedTopic`: the topic belongs to a part (`TopicSettings.owner`), and `part`, which says who calls, is another one or "", a user.
        Every call that changes something takes `part`; reading is everybody's.
      - `OutcomeUnknown`: the records may or may not be there; read before appending again.
      - `Damaged`: names file and offset. What lies before stays readable.
    """

    engine: Engine

    @property
    @abstractmethod
    def address(self) -> LogAddress:
        """The address with which another process opens this log."""

    # -- topics ---------------------------------------------------------------------------------------------

    @abstractmethod
    def create_topic(
        self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None, part: str = "", copies: int = 0
    ) -> Topic:
        """Make a topic. Returns an existing topic with the same partitions and settings (any, if none are given) as it is.

        `part` becomes its owner, and both engines keep it with the topic. `copies`: on how many brokers a new topic is kept; 0: as many as
        the log was opened with. An existing topic keeps its own.

        Errors: `AlreadyExists` when it is there with other partitions or settings (a partition count never changes:
        keys would move), or when a part creates a topic that a user has made; `BadInput` for an unfit name or count; Kafka: `Unsupported`
        for a part whose name is not at most 11 small letters, dashes and underscores, for a period of the calendar, and for a disposal
        other than `delete`; embedded: for copies.
        """

    @abstractmethod
    def topics(self) -> list[Topic]:
        """Every topic, sorted by name. Errors: `Damaged` where one cannot be described: `topic_names` names it."""

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted, also of those that cannot be described."""
        return [topic.name for topic in self.topics()]

    @abstractmethod
    def topic(self, name: str) -> Topic:
        """One topic, or `UnknownTopic`."""

    @abstractmethod
    def delete_topic(self, name: str, *, part: str = "") -> None:
        """Remove a topic and all of its records, or `UnknownTopic`."""

    def retention(self, topic: str) -> str:
        """The setting by which a topic's records go although nobody deletes them, as it is now; "" where there is none.

        Kafka alone has such settings, which anybody may change there. The embedded engine keeps everything. Errors: `UnknownTopic`.
        """
        self.topic(topic)
        return ""

    # -- writing --------------------------------------------------------------------------------------------

    @abstractmethod
    def append(self, topic: str, partition: int, records: Sequence[Record], *, guard: Guard | None = None, part: str = "") -> Sequence[int]:
        """Append the records in order as one batch; return their offsets once they are durable.

        The embedded engine writes a batch whole or not at all, at consecutive offsets. Kafka keeps the order, but may
        let another producer's records in between, and after `OutcomeUnknown` a leading part may be there.

        `guard` is called first, with every record after the offset that the caller knows: see `Guard`. Its errors are those of its `check`;
        `OffsetGone` and `BadBounds` where its offset lies below the start, beyond the end, or too far behind it; `Unavailable`. Kafka:
        `Unsupported`, because no broker locks a partition. There, a Writer's `append` takes a guard.
        """

    def append_inline(self, topic: str, partition: int, records: Sequence[Record]) -> Sequence[int] | None:
        """`append` of a few small records without waiting for a lock or a slow disk; None, and nothing was done, where it would wait.

        An event loop may call it: it takes little longer than a thread's wake-up. Errors: those of `append`. Kafka: always None.
        """
        return None

    @abstractmethod
    def append_arrow(self, topic: str, partition: int, batch: pa.RecordBatch, *, part: str = "") -> Sequence[int]:
        """`append` for columns: `key` and `value` (binary, nullable); optionally `timestamp` (int64 ms), `mode` and `op` (uint8), and
        `headers` (binary, nullable: blocks as `layout.encode_headers` makes them and `scan` gives them)."""

    def check_records(self, topic: str, records: Sequence[Record]) -> None:
        """Raise the error with which `append` refuses these records in any partition of the topic. Writes nothing.

        For callers that append to several partitions and want all or nothing. Errors: `BadInput`, `TooLarge`, `UnknownTopic`.
        """
        from headwater.log.encoding import encode

        encode(records, now=0, limit=self.topic(topic).settings.max_record)

    @abstractmethod
    def claim(self, topic: str, partition: int, *, part: str = "", claimant: str = "") -> Writer:
        """Become the only writer of a partition. Every earlier Writer of it gets `Fenced` from now on, in any process.

        An append without a Writer gets `Fenced`, too (embedded), or is taken and does not count (kafka: `headwater.log.epochs`).
        `delete_before` and `compact` of the log get `Fenced`. A claim outlives its process: only the next claim ends it.

        `claimant`: an id of the caller's. Kafka keeps it with the claim (`headwater.log.epochs.CLAIMANT`), so that one whose claim had an
        unknown outcome finds out whether the newest claim is its own.
        """

    @abstractmethod
    def writer(self, topic: str, partition: int, epoch: int, *, generation: str = "", part: str = "") -> Writer:
        """The Writer of another process's claim, for work that this process does on its behalf.

        `generation`: that of the topic when the claim was made or its epoch was read (`Topic.generation`). A topic that is created again
        may count its epochs from 1, so the epoch alone may pass for a claim of the new topic. With "" the Writer belongs to the topic that
        is there now. The Writer's calls are `Fenced` where the topic has another generation.

        Kafka: it deletes with the newest claim alone, or is `Fenced`. Its records are marked as lent (`headwater.log.epochs.LENT`) and are
        acknowledged once they are replicated, whoever has claimed the partition meanwhile: the owner decides which of them count. Appends
        with a guard are `Unsupported`.
        """

    # -- reading --------------------------------------------------------------------------------------------

    @abstractmethod
    def epoch(self, topic: str, partition: int) -> int:
        """The newest claim of a partition; 0 where there is none.

        Embedded: reads memory. Kafka: reads the records after the newest claim, once for each open log.
        """

    @abstractmethod
    def bounds(self, topic: str, partition: int) -> Bounds:
        """The first offset still kept and the offset after the last durable record."""

    def known_end(self, topic: str, partition: int) -> int | None:
        """The durable end, where this process has it in memory; None: ask for `bounds`, which also finds out whether the topic is there."""
        return None

    @abstractmethod
    def read(self, topic: str, partition: int, start: int, *, limit: int = 1000, max_bytes: int = 64 << 20) -> list[Record]:
        """Up to `limit` durable records from `start` on, at least one when there is one; an empty list at the end.

        Errors: `OffsetGone` below the start, `BadBounds` beyond the end.
        """

    @abstractmethod
    def read_at(self, topic: str, partition: int, offsets: Sequence[int]) -> list[Record | None]:
        """The durable records at these offsets, in the order asked for; None for each at which there is no record any more.

        For scattered reads in any order: once a batch has been read, the cost of a record does not depend on the batch's size.
        None stands for deleted or compacted records, and for offsets of the brokers' own records. The log checks every batch before it
        returns a record of it; a large batch once for as long as its reader remembers it. All of them are of one moment: a concurrent roll,
        compaction or deletion is visible whole or not at all (embedded).
        Errors: `BadBounds` for an offset at or beyond the end, or below 0; `BadInput` for a value that is no number; `Damaged`.
        """

    @abstractmethod
    def scan(self, topic: str, partition: int, start: int, end: int | None = None, *, batch: int = 65_536) -> Iterator[pa.RecordBatch]:
        """The durable records of [start, end) as Arrow batches of at most `batch` rows (schema: `headwater.log.arrow.SCHEMA`).

        `end=None` is the durable end at the time of the call. Errors as `read`.
        """

    @abstractmethod
    def tail(self, topic: str, partition: int, start: int, *, stopped: Callable[[], bool]) -> Iterator[list[Record]]:
        """Batches of records from `start` on as they become durable; an empty list about each 100 ms when there are none.

        Ends when `stopped()` is true. Errors as `read`; `UnknownTopic` once the topic is deleted, `Closed` once the log is closed.
        """

    @abstractmethod
    def watch(self, topic: str, partition: int, changed: Callable[[], None]) -> Watching:
        """Call `changed` when the durable end of a partition has moved, and when no more records will come: see `Watching`.

        Another thread calls it; it must be quick and raise nothing. Waiting costs almost nothing, for any number of waiters. Errors:
        `UnknownTopic`, `UnknownPartition`, `Closed`.
        """

    @abstractmethod
    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        """The first offset whose record's timestamp (ms) is at or after `timestamp`; the end when there is none.

        Exact where timestamps do not decrease along the partition; otherwise no later than the first such record.
        """

    # -- housekeeping ---------------------------------------------------------------------------------------

    def with_reserve(self, call: Callable[[], T]) -> T:
        """What `call` returns. Where a full disk stops it, it is called once more with the space that the log keeps for that.

        For calls through which space becomes free, and which have done nothing when they raise `DiskFull`. Kafka has no such space.
        """
        return call()

    @abstractmethod
    def delete_before(self, topic: str, partition: int, offset: int, *, part: str = "") -> int:
        """Delete every record below `offset`; return the start. Deleting twice is no error; beyond the end is `BadBounds`.

        Closed segments that lie wholly below are disposed of as the topic says (`TopicSettings.disposal`). A file that somebody still reads
        waits for that, unless it is only deleted.
        `Fenced` where the partition is claimed: its Writer deletes.
        """

    @abstractmethod
    def compact(self, topic: str, partition: int, before: int | None = None, *, part: str = "") -> Compacted:
        """Keep, among the closed segments and below `before`, the last record of each key. Kafka: `Unsupported`.

        `Fenced` where the partition is claimed: its Writer compacts.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish appends under way, then close files and connections. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Watching(ABC):
    """A watched partition, until `close`.

    A caller that reads `end` first and then waits for the call misses nothing: the call comes for everything durable after `end` returned.
    """

    @abstractmethod
    def end(self) -> int:
        """The durable end, as cheaply as can be: on Kafka, as far as its consumer has come.

        Errors: `UnknownTopic` once the topic is deleted, also where one of its name was made since; `Closed`.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop the calls. Quick, and safe in a finalizer. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Writer(ABC):
    """The only writer of a partition, until somebody else claims it.

    Every call raises `Fenced` once a newer claim exists, and `append` raises `OutcomeUnknown` when the claim came while the records were
    under way. The log acknowledges nothing to this Writer after a newer claim.
    On Kafka a stale Writer's records may still lie in the partition: folds of claimed partitions leave them out with
    `headwater.log.epochs.Epochs`, which on the embedded engine lets everything pass.
    """

    topic: str
    partition: int
    epoch: int
    generation: str = ""  # of the topic that was claimed; "" on Kafka, whose Writers notice a topic that was created again by its offsets

    @abstractmethod
    def append(self, records: Sequence[Record], *, guard: Guard | None = None) -> Sequence[int]:
        """As `Log.append`, or `Fenced`. Both engines call a guard; its records may include some that do not count."""

    @abstractmethod
    def append_arrow(self, batch: pa.RecordBatch) -> Sequence[int]:
        """As `Log.append_arrow`, or `Fenced`."""

    @abstractmethod
    def roll(self, *, due: bool = False) -> int:
        """Close the active segment; return the offset at which the next one begins, which is the end. Everything before it is durable.

        `due`: only where the period in which the segment was begun is over. An empty segment stays the active one. The log disposes of a
        closed segment at once when all its records are deleted. An owner may call this by a timer when a period ends
        (`headwater.core.period.period_end`), so that a drained segment goes without an append.
        Kafka: `Unsupported`, because brokers close segments by their own settings.
        """

    @abstractmethod
    def delete_before(self, offset: int) -> int:
        """As `Log.delete_before`, or `Fenced`. Kafka: a claim between the last check and the deletion does not stop it."""

    @abstractmethod
    def compact(self, before: int | None = None) -> Compacted:
        """As `Log.compact`, or `Fenced`; after a claim in the midst of it, segments compacted by then stay so."""
