"""Types of the blocking door. Written by `python -m tools.blocking_stub`; a test compares the two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from headwater.client.document_value import (
    ANY_BODY,
    MISSING,
    B,
    BatchWrite,
    ChangesSince,
    Document,
    DocumentChange,
)
from headwater.client.door import Headwater
from headwater.client.queue_claim import DeadQueueRow, QueueRow
from headwater.client.queue_result import NO_RESULT
from headwater.client.queue_rows import GivenAfter
from headwater.client.queue_running import WorkerReport
from headwater.core.clock import Clock
from headwater.core.config import Config
from headwater.core.errors import (
    HeadwaterError,
)
from headwater.core.units import Duration
from headwater.documents.answers import (
    ExportedContent,
    HyperStorageIndex,
    HyperStorageIndexCreated,
    HyperStorageTransaction,
    HyperStorageTransactionCreated,
    ListedContent,
    ShownView,
    TransactionState,
)
from headwater.documents.care_answers import DocumentsStatus, DocumentTrail, RebuiltDocuments, VerifiedDocuments
from headwater.documents.index_requests import HyperStorageIndexSortItem
from headwater.documents.template_requests import ShownTemplate
from headwater.documents.write import PatchKind
from headwater.journal import care_requests as care
from headwater.journal import projection_requests as asked
from headwater.journal.answers import (
    DeletedSnapshots,
    JournalChanged,
    JournalTrail,
    SavedSnapshot,
    ShownHead,
    ShownJournals,
    ShownPointer,
    TopicStatus,
)
from headwater.journal.cipher_operations import ErasedJournal, RotatedKeys
from headwater.journal.event import EventRecord
from headwater.journal.exported import ExportLine
from headwater.journal.projection_requests import ShownProjection
from headwater.journal.requests import Consistency
from headwater.journal.shown import FollowedEvent
from headwater.journal.snapshot_shown import SnapshotRecord
from headwater.journal.transfer_requests import ImportedLines
from headwater.journal.write import Appended
from headwater.log.answers import PartitionContent, Placed
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings
from headwater.pipeline.operating import answers
from headwater.queue.answers import (
    QueueDeleted,
    QueueSummary,
    RowCounts,
    ShownChange,
    ShownEvent,
    ShownResult,
    ShownRow,
    ShownSchedule,
    ShownStatistics,
)
from headwater.queue.handling import Backoff
from headwater.queue.json_form import (
    GivenDate,
)
from headwater.queue.requests import FailedRow
from headwater.queue.settings import QueueSettings
from headwater.queue.values import Outcome, Reason, RowResult, State
from headwater.wal.answers import (
    PinnedLog,
    RegionCleaned,
    RegionDeleted,
    RegionEvent,
    RegionRecovered,
    RegionStatistics,
    RegionSummary,
    RegionVerified,
    TableDropped,
    TableMarked,
    TableMoved,
    TableState,
)
from headwater.wal.bounds import End, Start
from headwater.wal.entries import BATCH, LogEntry
from headwater.wal.settings import RegionSettings

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

class BlockingPipelines:
    """All pipelines of a log: `hw.pipelines.list()`, `hw.pipelines["shop"].status()`."""

    def list(self) -> Sequence[answers.Status]:
        """The status of every pipeline that has run here, sorted by name."""

    def __getitem__(self, name: str) -> BlockingOnePipeline:
        """A pipeline by its name. Does no I/O. Errors: `BadInput` for what is no name."""

    def __iter__(self) -> NoReturn:
        """Raise `TypeError`: Python would ask `__getitem__` for 0, 1, 2 and so on, and never end."""

class BlockingOnePipeline:
    """One pipeline. Reading changes nothing. The audit keeps every change with its reason `why`; `dry_run` changes nothing.

    Errors: `UnknownPipeline`, `UnknownSink`, `BadBounds` for an offset that the log does not hold, `BadInput` for a change without a
    reason, `Stopped` when a sink refuses a message that is sent to it. Over HTTP also those of the log: `Unreachable`, `OutcomeUnknown`.
    """

    name: str

    def status(self) -> answers.Status:
        """Its newest run, and where every sink is."""

    def bounds(self) -> Bounds:
        """The first offset that its log keeps, and the one after the last."""

    def messages(
        self, first: int | None = None, last: int | None = None, *, namespace: str = ".*", limit: int = 1000
    ) -> list[answers.Seen]:
        """The messages `first` (None: the oldest) to `last` (None: the newest), both included, at most `limit` of them."""

    def offsets(self) -> list[answers.SinkPosition]:
        """Where every sink is, and what has stopped it."""

    def offset(self, sink: str) -> answers.SinkDetail:
        """Where a sink is, and by namespace the last message that it took."""

    def dead(self, sink: str | None = None) -> list[answers.Buried]:
        """The messages that were put aside."""

    def dead_one(self, offset: int, sink: str | None = None) -> answers.BuriedMessage:
        """One of them, with the message itself."""

    def audit(self) -> list[answers.Audited]:
        """What operators have done: when, who, what, and why."""

    def verify(self, sink: str) -> answers.Verified:
        """Compare what a sink holds with what the log says that it should hold."""

    def mark(self, sink: str, position: int, *, why: str, dry_run: bool = False) -> answers.Marked:
        """Make `position` the last message that a sink has taken, forward or back; -1: none."""

    def delete(self, sink: str, *, why: str, dry_run: bool = False) -> answers.Forgotten:
        """Forget a sink that the pipeline no longer has."""

    def ack(self, sink: str, offset: int, *, why: str, dry_run: bool = False) -> answers.Acked:
        """Count a message as taken without sending it."""

    def edit(
        self,
        offset: int,
        data: dict[str, Any] | None = None,
        *,
        set: Mapping[str, Any] | None = None,
        unset: Sequence[str] = (),
        sink: str | None = None,
        why: str,
        dry_run: bool = False,
    ) -> answers.Edited:
        """Deliver a corrected copy: the whole document as `data`, or the message with fields `set` and others `unset`."""

    def undo(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Undone:
        """Deliver the original again."""

    def drop(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Resolved:
        """Let a message that was put aside go for good."""

    def step(self, sink: str, count: int = 1, *, why: str = "", dry_run: bool = False) -> answers.Stepped:
        """Deliver the next messages to a sink, each acknowledged before the one after."""

    def replay(self, sink: str, first: int, last: int, *, why: str = "", dry_run: bool = False) -> answers.Replayed:
        """Send messages again, both ends included; positions do not move."""

    def retry(self, offset: int, *, sink: str | None = None, why: str = "", force: bool = False, dry_run: bool = False) -> answers.Resolved:
        """Send a message that was put aside. `Conflict` where the sink has a newer one of the same document, unless `force` is given."""

    def stop(self, *, why: str = "", dry_run: bool = False) -> answers.Stopping:
        """Ask a live run to finish what it has begun, and stop."""

    def remove(self, *, dry_run: bool = False) -> answers.Removed:
        """Delete the pipeline, which must not run, with its messages, positions and audit, for good. Sinks keep what they have."""

    def compact(self, *, dry_run: bool = False) -> answers.Compaction:
        """Keep, below what every sink has taken, the last message of each namespace."""

class BlockingWriteAheadLog:
    """Every namespace: `wal = hw.wal("wal")`, then `region = wal.open(7, create=True)`, then `region.write(1, [b"…"])`."""

    def __call__(self, namespace: str) -> BlockingWalNamespace:
        """A namespace by its name. Does no I/O. Errors: `BadInput` for what is no name."""

    def regions(self) -> Sequence[RegionSummary]:
        """Every region, sorted by namespace and number."""

    def regions_of(self, namespace: str) -> Sequence[RegionSummary]:
        """The regions of a namespace, sorted by number."""

class BlockingWalNamespace:
    """A namespace and its regions."""

    namespace: str

    def regions(self) -> Sequence[RegionSummary]:
        """Its regions, sorted by number."""

    def __getitem__(self, region: int) -> BlockingOneRegion:
        """A region by its number, to look at, or to write: the first change opens it. Does no I/O. Errors: `BadInput`."""

    def __iter__(self) -> NoReturn:
        """Raise `TypeError`: Python would ask `__getitem__` for 0, 1, 2 and so on, and never end."""

    def create(self, region: int, settings: RegionSettings | None = None) -> RegionSummary:
        """Create a region; one that is there stays as it is. Errors: `BadInput`; `AlreadyExists` where it has other settings than given;
        `Unsupported` for a replication of segment files."""

    def delete(self, region: int, *, dry_run: bool = False) -> RegionDeleted:
        """Delete a region with all of its tables, for good. Errors: `RegionNotFound`; `NotOwner` while another process owns it."""

    def open(
        self,
        region: int,
        *,
        create: RegionSettings | bool = False,
        take_over: bool = False,
        on_pin: Callable[[PinnedLog], None] | None = None,
    ) -> BlockingOneRegion:
        """Own a region and recover its state; over HTTP the server does. `create`: make it where it is not there.

        `take_over`: also where a living process owns it, whose next write is then `Fenced`. `on_pin`: is called with what pins the log
        before a clean moves a table because of `pin_limit`, and where more than a segment is held that nothing moves: once for each table
        that pins it, and again whenever that has doubled. The thread of the event loop calls it, until the region is closed. Errors:
        `RegionNotFound`; `NotOwner`, which names the owner, where that one serves at no address; `MetaLost`, `Damaged`; `Unsupported` for
        `on_pin` over HTTP.
        """

    def take_over(self, region: int) -> BlockingOneRegion:
        """`open` with `take_over`: own a region although a living process owns it."""

class BlockingOneRegion:
    """A region: tables that write ahead into one log, and forget on their own what they have flushed.

    Looking (`statistics`, `tables`, `read`, `scan`, `sequence_num`, `why`, `verify`, `events`) needs no ownership and creates nothing. The
    first change owns the region until `close`. Errors: `RegionNotFound`; `NotOwner`; `Fenced` once another process has taken it over;
    `UnknownTable` for a mark, a drop or a move; `Closed` after `close`. Over HTTP also `Unreachable`, `OutcomeUnknown`.
    """

    namespace: str
    region: int

    def write(self, table: int, payloads: Sequence[bytes], *, timeout: float | None = None) -> int:
        """Write payloads as one record; return the sequence of the last one once they are durable.

        Errors: `BadInput`, `TooLarge`; `Timeout` after so many seconds: they may become durable later; `OutcomeUnknown`.
        """

    def mark_delete_up_to(self, table: int, sequence: int, *, dry_run: bool = False) -> TableMarked:
        """Forget the payloads up to `sequence`, with it: they are safe elsewhere. The answer says what is forgotten by now."""

    def drop_table(self, table: int, *, dry_run: bool = False) -> TableDropped:
        """Forget a table and all of its payloads. One that is written later under its number begins at 1."""

    def move(self, table: int, *, dry_run: bool = False) -> TableMoved:
        """Copy the live payloads of a table to the end of the log, so that it no longer pins what lies before."""

    def read(self, table: int, start: Start = "min", end: End = "max", *, batch: int = BATCH) -> BlockingEntryStream:
        """The live payloads of a table between two bounds, as they are when reading begins. Empty for an unknown table.

        Bounds are "min", "max", `Included(n)` and `Excluded(n)`. Errors: `BadBounds`, whatever the table holds.
        """

    def scan(self, *, tables: Collection[int] | None = None, batch: int = BATCH) -> BlockingEntryStream:
        """The live payloads of all tables in the order of the log, as they are when reading begins. `tables`: only these."""

    def sequence_num(self, table: int) -> int:
        """The last sequence of a table; 0 for an unknown one."""

    def tables(self) -> Sequence[TableState]:
        """Every table, sorted by number."""

    def events(self, after: int | None = None) -> Generator[RegionEvent]:
        """Writes, marks, drops, moves, cleans and pins as they happen, for ever; those behind the offset `after`, or from now on."""

    def statistics(self) -> RegionStatistics:
        """What it holds: offsets, tables, live and pinned entries, snapshots, its owner."""

    def why(self) -> PinnedLog:
        """Which table pins the log, since when, how much of it, and what to do."""

    def verify(self) -> RegionVerified:
        """Compare the stored state with the one that the log tells. Errors: `Differs` with the first difference."""

    def clean(self, *, dry_run: bool = False) -> RegionCleaned:
        """Store the state, and remove what no table needs from the beginning of the log."""

    def recover(self, *, accept_loss: bool = False, dry_run: bool = False) -> RegionRecovered:
        """Recover the state and store it anew; `accept_loss`: also where the beginning of the log is lost. Errors: `MetaLost`."""

    def close(self) -> None:
        """Finish the calls under way, and let another process own the region. Closing twice is no error; other calls are `Closed` then."""

    def close_gracefully(self) -> None:
        """`close` with a last snapshot, so that the next opening reads nothing but that."""

class BlockingEntryStream:
    """Payloads, one by one or in batches. What they are is decided with the first one. An error stays an error on every later call.

    A call that is given up, as by `asyncio.timeout`, takes nothing away: the next one goes on behind what was given. Errors: `OffsetGone`
    where a clean has removed them meanwhile: this never ends early without a word. `RegionNotFound`, `Damaged`.
    """

    def next_batch(self) -> list[LogEntry]:
        """Up to `batch` entries; empty at the end."""

    def __iter__(self) -> Generator[LogEntry]:
        """The entries, one by one."""

class BlockingQueues:
    """Every queue: `pages = hw.queue("pages", create=QueueSettings(lease="60s"))`, then `pages.put("page:/about", {…})`."""

    def __call__(self, name: str, *, create: QueueSettings | bool = False, declaration: str | Path | None = None) -> BlockingOneQueue:
        """A queue by its name. Does no I/O. Awaiting it opens it, and with `create` makes one that is not there. Errors: `BadInput`."""

    def list(self) -> Sequence[QueueSummary]:
        """Every queue with its settings, sorted by name."""

    def create(
        self, name: str, settings: QueueSettings | None = None, *, declaration: str | Path | None = None, dry_run: bool = False
    ) -> QueueSummary:
        """Create a queue, or change the settings of one that is there: those that are given, the others stay.

        Errors: `BadInput`; `Conflict` for a setting that cannot change.
        """

    def create_from(
        self, name: str, settings: Mapping[str, Any], *, declaration: str | Path | None = None, dry_run: bool = False
    ) -> QueueSummary:
        """`create` with settings by name, such as {"lease": "60s"}."""

    def delete(self, name: str, *, dry_run: bool = False) -> QueueDeleted:
        """Delete a queue with all of its rows, for good. Errors: `UnknownQueue`."""

class BlockingOneQueue:
    """A queue: rows with a key, a priority and a date. Workers claim rows that are due; a row that is done is gone.

    Nothing creates a queue but `create`. Errors of every call: `UnknownQueue`; `BadInput`; `NotOwner` where another process owns the queue
    and serves at no address; `Unavailable`, such as `OutcomeUnknown`, where the log could not be written. Over HTTP also `Unreachable`.
    """

    name: str

    def open(self) -> BlockingOneQueue:
        """Open the queue, and create it first where that was asked for; over HTTP the server does. Errors: `UnknownQueue`."""

    def put(
        self,
        key: str | bytes,
        data: Any = None,
        *,
        priority: int | None = None,
        delay: str | None = None,
        process_date: GivenDate | None = None,
        expiration_date: GivenDate | None = None,
        insertion_date: GivenDate | None = None,
        lane: str | None = None,
        every: str | None = None,
        cron: str | None = None,
        zone: str | None = None,
        unique_for: str | None = None,
        after: GivenAfter | None = None,
        after_dead: str | None = None,
        idempotency_key: str | None = None,
    ) -> BlockingQueuePut:
        """Put a row; return once it is durable. A row whose key waits already is merged into that one: the newest data, the latest
        process date, the smallest priority.

        `data`: JSON, or bytes. `priority`: 0 first, 255 last. `delay`, such as "10s", or `process_date`: not before. `expiration_date`: not
        after. `lane`: rows of one lane run in their order. `idempotency_key`: a put that is sent twice is done once.

        `every`, such as "1h", or `cron`, such as "0 6 * * 1-5", by the clocks of a `zone`: the row comes again when it is done or given up;
        missed runs come once. A put without them keeps the schedule of its key, every="never" ends it. Errors: `BadInput` for a bad one.

        `unique_for`, such as "10m": the put is `ignored` where its key was done within it; left out, as the queue's setting says.
        `after`: ids of rows, or what their puts have returned: the row waits until they are gone. One that is dead holds it until it is
        retried and done, or dropped; with after_dead="cancel", one that is dead, cancelled or expired cancels it. A cycle is `BadInput`.
        `put.result()` waits until the row is done, and returns what its worker has said of it.
        """

    def put_many(
        self, rows: Iterable[Mapping[str, Any] | tuple[Any, ...]], *, idempotency_key: str | None = None
    ) -> list[BlockingQueuePut]:
        """Put rows, all of them or none, as one record. A row is (key, data), or a mapping with the names of `put`."""

    def result(self, id: int, *, timeout: str | None = None) -> Any:
        """What the worker of a row has said of it when it was done. Waits until then; with `timeout`, such as "30s", no longer than that.

        A row that comes again has the result of its last run. Errors: `Timeout`; `NotFound` where the row has left no result, is cancelled
        or expired, or its result is forgotten, as the setting `results` says; `Conflict` where the row is dead.
        """

    def shown_result(self, id: int, *, timeout: str | None = None) -> ShownResult:
        """`result` as JSON has it, with every digit, and until when it is kept."""

    def claim(
        self,
        n: int = 1,
        *,
        lease: str | None = None,
        wait: str = "20s",
        group: str = "default",
        worker: str = "",
        done: Sequence[str | BlockingClaim | tuple[str | BlockingClaim, Any]] = (),
    ) -> list[BlockingClaim]:
        """Claim up to `n` rows that are due, for as long as the queue's lease, or as given; wait so long for the first.

        Empty where none came. `done`: claims whose rows are processed, or pairs of a claim and its result; stale ones are passed over.
        Errors: `Paused` with wait="0s"; `BadInput` and `TooLarge` for a result.
        """

    def exchange(
        self,
        n: int,
        *,
        lease: str | None = None,
        wait: str = "0ms",
        group: str = "default",
        worker: str = "",
        done: Sequence[str] = (),
        results: Mapping[str, RowResult] | None = None,
        fail: Sequence[FailedRow] = (),
        extend: Sequence[str] = (),
        release: Sequence[str] = (),
    ) -> BlockingExchanged:
        """Say what became of rows by their tokens, and claim up to `n` others, in one call. A stale token never spoils the rest."""

    def leave(self, worker: str) -> None:
        """End the claims of a worker that wait for rows; they return at once."""

    def done(self, *tokens: str, result: Any = NO_RESULT) -> list[str]:
        """The rows of these claims are processed: they are gone. Returns the tokens that no longer count.

        `result`: what became of them, JSON or bytes. Errors: `BadInput` for what is neither; `TooLarge`.
        """

    def extend(self, *tokens: str, lease: str | None = None) -> list[str]:
        """Let the leases of claims begin anew. Returns the tokens that no longer count."""

    def fail(self, token: str, error: str = "", *, retry_after: str | None = None, give_up: bool = False) -> None:
        """The row of a claim could not be processed. Errors: `StaleClaim`."""

    def release(self, token: str, *, delay: str | None = None) -> None:
        """Give the row of a claim back unprocessed, to be claimed after `delay`. Errors: `StaleClaim`."""

    def worker(
        self,
        function: Callable[[Any], Any],
        *,
        concurrency: int = 8,
        lease: str | None = None,
        group: str = "default",
        grace: str = "30s",
        drain: bool = False,
        retry: Backoff | None = None,
        on_dead: Callable[[Any], Any] | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> BlockingQueueWorker:
        """A worker that runs a function for each row: `with pages.worker(rebuild, concurrency=8) as w: w.run()`.

        `on_dead`: called with each row that dies while the worker runs, whichever worker had it; not with those that died before.
        """

    def get(self, key: str | bytes) -> QueueRow:
        """The row of a key: the one that is being processed, where there is one. Errors: `NotFound`."""

    def get_id(self, id: int) -> QueueRow:
        """The row of an id. Errors: `NotFound`."""

    def rows(self, *, state: State | None = None, prefix: str = "", limit: int | None = None) -> Generator[QueueRow]:
        """Rows by id; of one state (due, future, held, processing), of keys that begin with `prefix`."""

    def count(self) -> RowCounts:
        """How many rows are in each state."""

    def statistics(self) -> ShownStatistics:
        """What the queue holds, and what has happened since it was opened."""

    def show(self) -> QueueSummary:
        """Its settings, and the declaration of its columns."""

    def history(self, key: str | bytes) -> Sequence[ShownChange]:
        """What the log still holds of a key, the oldest first."""

    def schedules(self) -> Sequence[ShownSchedule]:
        """The rows that come again, by key: their schedules, and when they run next."""

    def listen(self, *, after: int | None = None) -> Generator[ShownEvent]:
        """Rows that become due, rows that die, and how many there are, from now on, for ever. `after`: the position of the last event that
        was seen; rows that died since, and are dead still, come first. `reset`: events were missed, and this is what there is."""

    def cancel(self, key: str | bytes) -> QueueRow:
        """Remove the waiting row of a key, and return it. Errors: `NotFound`; `Conflict` while it is being processed."""

    def run_now(self, key: str | bytes) -> QueueRow:
        """Let the waiting row of a key be due now, whatever its date; its schedule stays. Errors: `NotFound`; `Conflict` as of `cancel`."""

    def pause(self) -> None:
        """Give out no rows until `resume`. Puts, and what becomes of claimed rows, go on."""

    def resume(self) -> None:
        """Give out rows again."""

    def dead(self, *, prefix: str = "", reason: Reason | None = None, limit: int | None = None, after: int = 0) -> list[DeadQueueRow]:
        """The rows that the queue has given up, by id, behind the id `after`; of keys that begin with `prefix`, of one reason."""

    def dead_show(self, id: int) -> DeadQueueRow:
        """A dead row. Errors: `NotFound`."""

    def dead_retry(self, id: int, *, dry_run: bool = False) -> int:
        """Put a dead row again; it may merge with a waiting row of its key. Returns 1. Errors: `NotFound`."""

    def dead_retry_all(self, *, prefix: str = "", reason: Reason | None = None, dry_run: bool = False) -> int:
        """Put every dead row again, or those that a filter finds; return how many."""

    def dead_drop(self, id: int, *, dry_run: bool = False) -> int:
        """Forget a dead row, for good. Returns 1. Errors: `NotFound`."""

    def dead_drop_all(self, *, prefix: str = "", reason: Reason | None = None, dry_run: bool = False) -> int:
        """Forget every dead row, or those that a filter finds, for good; return how many."""

T = TypeVar("T")

class BlockingJournals:
    """Every topic of journals: `bank = hw.journals("bank")`, then `bank["alice"].append({"type": "opened"})`."""

    def __call__(self, topic: str, *, create: bool = False) -> BlockingTopicJournals:
        """The journals of a topic: `journals("bank")` is the topic `journal-bank`. Does no I/O.

        Awaiting it checks that it is there, and with `create` makes one that is not. Errors: `BadInput`.
        """

    def list(self) -> Sequence[ShownJournals]:
        """Every topic of journals, sorted by name."""

    def create(self, topic: str, *, partitions: int = 0, cipher: str = "", dry_run: bool = False) -> ShownJournals:
        """Create a topic of journals. One that is there stays as it is. `partitions`: 0 for the configured number.

        `cipher`, "aes-256-gcm": encrypts the payloads of events that are appended from now on, also of a topic that is there.
        Errors: `AlreadyExists` where it is there with another number of partitions; `BadConfig` for a cipher without a master key.
        """

class BlockingTopicJournals:
    """The journals of a topic, by their ids.

    Errors of every call: `UnknownJournal` for a topic that is not there; `BadInput`; `Unavailable`. Over HTTP also `Unreachable`.
    """

    name: str

    def open(self) -> BlockingTopicJournals:
        """Check that the topic is there, and create it first where that was asked for. Errors: `UnknownJournal`."""

    def __getitem__(self, id: str) -> BlockingJournal:
        """A journal by its id. Does no I/O. Errors: `BadInput` for what is no id."""

    def ids(self) -> Generator[str]:
        """The ids of all journals, sorted by their UTF-8 bytes. Purged ones are left out."""

    def append_many(self, appends: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Appended | HeadwaterError]:
        """Append to many journals: pairs of an id and its payloads or `Event`s, each pair one Append, done by itself.

        Returns, for each, where it lies, or the error that it met; those of one journal are done in their order.
        """

    def follow(
        self, after: str | None = None, *, tags: Collection[str] | None = None, ids: Collection[str] | None = None, copied: bool = False
    ) -> Generator[FollowedEvent]:
        """The events of the topic, those that were appended and then those that come, for ever. Deletes and Purges take nothing back.

        `after`: the `position` of the last event that was seen; None: from the first one on; "kept": from the first one on that the log
        keeps. `tags`: only events with one of these. `ids`: only these journals. `copied`: what the log has deleted (`journal.keep`) is
        read from the store, without deleted events and purged journals. Errors: `OffsetGone` for records that the log has deleted, or
        with `copied` `LogGap` where the store lacks them; `Differs` for a position of an earlier topic of this name.
        """

    def status(self) -> TopicStatus:
        """The topic and its partitions: what the log keeps, how far it is copied, the head caches."""

    def pointers(self) -> Sequence[ShownPointer]:
        """How far each partition is copied into the store."""

    def stats(self) -> care.TopicStats:
        """Count what the log keeps and what the copy holds, by partition: journals, events, bytes, forks, gaps, deleted, expired, lag."""

    def forks(self) -> care.ForkReport:
        """The numbers of journals that several events have, as two writers make them, copied or not: the first thousand."""

    def verify(self, *, progress: Callable[[int, int], None] | None = None) -> care.VerifiedCopy:
        """Compare the copy with what the log says; from half a million records on, on Spark. `progress`: is told, about once a second, how
        many records are folded, and of how many. Errors: `Differs` with the first difference; `LogGap` where the log was deleted."""

    def base(self, *, dry_run: bool = False) -> care.WrittenBase:
        """Verify the copy, and keep what was verified as its base: `rebuild` and `verify` begin with it once the log is deleted.

        Errors: as of `verify`. A base that is interrupted leaves the one before it valid.
        """

    def export(self, *, ids: Collection[str] | None = None) -> Generator[ExportLine]:
        """Everything that the journals are, one Append a line: for `import_lines`, of this topic or another one, here or elsewhere.

        `ids`: only these journals. Each journal is as it is when its turn comes. Errors: those of reads.
        """

    def import_lines(self, lines: Iterable[bytes | str | ExportLine], *, dry_run: bool = False) -> ImportedLines:
        """Import what `export` has given, or the lines of its file. Lines that are there already change nothing, so an import that was
        interrupted is begun again.

        Errors: `BadInput` for lines that cannot be read, or end too early; `Differs` for a journal that is another one here; both name the
        line. What came before it stays. `NotOwner` for a topic that others number, too.
        """

    def rebuild(self, *, why: str = "", dry_run: bool = False, progress: Callable[[int, int], None] | None = None) -> care.RebuiltCopy:
        """Let the replicator make the copy anew, from the beginning of the log, or from its base, and wait until it has: where none runs on
        this data directory, the next one does it. `progress`: as of `verify`. Errors: `LogGap` without either; what stops a partition."""

    def expire(self, *, dry_run: bool = False) -> care.ExpiredJournals:
        """Remove the copied journals whose day has come, UTC. A replicator does so once a day."""

    def rotate(self, *, why: str = "", dry_run: bool = False) -> RotatedKeys:
        """Wrap the keys of encrypted journals with the newest master key. No event is written anew. Errors: `BadInput` for a topic that is
        not encrypted; `Undecryptable` where a master key is not configured that is still needed."""

    def dead(self) -> Sequence[care.ShownDead]:
        """The records that cannot be decoded: those that are left out, and those that stop their partition."""

    def dead_show(self, partition: int, offset: int, *, snapshots: bool = False) -> care.DeadContent:
        """A record with its bytes, and why it cannot be decoded. `snapshots`: a record of the topic of snapshots."""

    def dead_quarantine(self, partition: int, offset: int, *, why: str, snapshots: bool = False, dry_run: bool = False) -> care.ShownDead:
        """Leave out a record that cannot be decoded: its partition goes on behind it. Errors: `BadInput` for one that can be decoded."""

    def dead_drop(self, partition: int, offset: int, *, why: str, snapshots: bool = False, dry_run: bool = False) -> care.ShownDead:
        """`dead_quarantine`, by the name that dead things of every part have for it."""

    def dead_retry(
        self, partition: int, offset: int, *, why: str = "", snapshots: bool = False, dry_run: bool = False
    ) -> care.RetriedRecord:
        """Count a record again that can be decoded by now. Errors: `UnreadableRecord` where it still cannot be."""

    def projections(self) -> Sequence[ShownProjection]:
        """The projections of the topic that somebody has run, sorted by name."""

    def projection(self, name: str) -> BlockingNamedProjection:
        """A projection by its name. Does no I/O. Errors: `BadInput` for what is no name."""

class BlockingDocuments:
    """Every document and collection: `doc = hw.documents["shop/settings"].get()`.

    Errors of every call: `BadPath`, `BadInput`, `Unavailable`; over HTTP also `Unreachable`.
    """

    @property
    def views(self) -> BlockingCollectionViews:
        """Collections that mirror documents and items."""

    @property
    def templates(self) -> BlockingIndexTemplates:
        """Indexes of every collection whose path fits."""

    def __getitem__(self, path: str) -> BlockingResource:
        """A document, a collection (its path ends with ~) or an item. Does no I/O. Errors: `BadPath`."""

    def list(self, prefix: str = "", after: str = "") -> Generator[ListedContent]:
        """The documents and collections whose paths begin so, by path. `after`: those behind this path."""

    def export(self, prefix: str = "", after: str = "") -> Generator[ExportedContent]:
        """The documents and items of documents and collections whose paths begin so, with their bodies, and with the time at which they
        expire. Items of views are left out. `after`: those behind this path."""

    def batch(
        self, writes: Sequence[BatchWrite], *, timeout: float | None = None
    ) -> Sequence[HyperStorageTransactionCreated | HeadwaterError]:
        """Many writes, each done by itself, those of one document or collection in their order: method, path and body of each, such as
        ("put", "shop/settings", {"open": True}), or a `BatchLine`. Returns, for each, its transaction or the error that it met. `timeout`:
        the seconds that each request of some hundred writes may take. Errors: `Timeout` then; they may be done or not."""

    def feed(self, prefix: str, after: str | None = None, *, snapshot: bool = False) -> Generator[DocumentChange]:
        """The changes of everything below a path, such as "shop/", those behind a position and then those that come, for ever."""

    def transactions(
        self, path: str | None = None, *, state: TransactionState | None = None, limit: int = 100
    ) -> Sequence[HyperStorageTransaction]:
        """Transactions, the newest first: of one document or collection, or of all. `state`: "accepted" are those that the store lacks, the
        oldest first where no path is given; "applied", "indexed" and "published", which are the same, are those that it has with their
        indexes, among the newest. A transaction itself says accepted or published."""

    def transaction(self, transaction: str, *, wait: int = 0) -> HyperStorageTransaction:
        """How far a write is. `wait`: seconds to wait until it is published. Errors: `NotFound`."""

    def status(self) -> DocumentsStatus:
        """The partitions of documents: who owns them, how far the store is, what waits. Those of other servers as these see them; their
        state is `Unknown` where they cannot be asked."""

    def trail(self, path: str, *, limit: int = 100) -> DocumentTrail:
        """A document on its way: its newest records in the log, and what the store has of it."""

    def verify(self, *, progress: Callable[[int, int], None] | None = None) -> VerifiedDocuments:
        """Compare the store with what the log says. `progress`: is told, about once a second, how many records are folded, and of how many.
        Errors: `Differs` with the first difference; `LogGap` where the log was deleted."""

    def rebuild(self, *, partitions: Sequence[int] = (), why: str = "", dry_run: bool = False) -> RebuiltDocuments:
        """Make the store anew from the log: all of it, or these partitions. What other servers own is made anew there. Errors: `LogGap`
        where the log was deleted; `NotOwner` with the partitions that are left, because their owners cannot be asked."""

class BlockingExchanged(NamedTuple):
    """What a claim call has brought: rows, and which of the tokens that it told of no longer count."""

    claims: list[BlockingClaim]
    stale: list[str]

class BlockingClaim(QueueRow):
    """A row that the caller may process until `lease_until`: `with claim: …` is done at its end, and fails with an exception.

    `Retry` and `GiveUp` end the block without an error; other exceptions go on to the caller. Errors of its calls: `StaleClaim` once the
    lease has ended, or after `done`, `fail` or `release`.
    """

    token: str
    lease_until: int

    def shown(self) -> ShownRow: ...
    def done(self, result: Any = NO_RESULT) -> None:
        """The row is processed: it is gone. `result`: what became of it, JSON or bytes, for those who wait for it.

        Errors: `BadInput` for what is neither; `TooLarge`.
        """

    def extend(self, lease: str | None = None) -> None:
        """Let the lease begin anew, as long as the queue's, or as given."""

    def fail(self, error: str = "", *, retry_after: str | None = None, give_up: bool = False) -> None:
        """The row could not be processed: it is tried again after `retry_after`, at once where that is left out; `give_up`: never."""

    def release(self) -> None:
        """Give the row back unprocessed, at once."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None: ...

class BlockingQueuePut:
    """What became of a row that was put, and its result, once it is done."""

    @property
    def id(self) -> int:
        """The id of the row that the put has made or changed; of a stale or ignored put, the id of the row that stays, or was done."""

    @property
    def outcome(self) -> Outcome:
        """inserted, merged, follow-up, stale or ignored."""

    @property
    def process_date(self) -> int:
        """The row's process date by now, in milliseconds since 1970; 0 of an ignored put."""

    @property
    def raised(self) -> bool:
        """The given process date lay before the insertion date, and was raised to it."""

    @property
    def replayed(self) -> bool:
        """This is the answer to an earlier put with the same idempotency key: nothing has changed now."""

    def result(self, *, timeout: str | None = None) -> Any:
        """What the worker of the row has said of it, once it is done. `timeout`: how long to wait, such as "30s"; left out, for ever.

        Errors: `Timeout`; `NotFound` where the row has left no result, is cancelled or expired, or its result is forgotten; `Conflict`
        where it is dead.
        """

class BlockingQueueWorker:
    """Runs a function for each row of a queue, `concurrency` at a time, until it is stopped.

    An asyncio function runs as a task, a plain one in a thread. A row is done when the function returns. What it returns, unless that is
    None, is the row's result; one that is neither JSON nor bytes, or too large, sends the row to the dead list. The row fails when the
    function raises, and is tried again as `retry` says, or as a `Retry` says; `GiveUp` sends it to the dead list. The worker extends the
    leases of all of its rows in one call, at a third of the lease. When it cannot, and a lease ends, it cancels the task: another worker
    may have the row.

    One claim call at a time brings back everything that is finished, and asks for rows for the free slots. While that call waits for rows,
    what is finished goes back in a call of its own. While the server is away, or another process owns the queue, the worker tries again;
    `Closed`, `UnknownQueue` and the other errors end `run`. `stop`, SIGTERM and Ctrl-C end it, too: rows that run have `grace` to end, then
    they are cancelled and released. A thread cannot be cancelled: its row stays claimed until its lease ends. Where nobody takes what is
    finished then, `run` ends with `Unavailable`, and those rows run again when their leases have ended.
    """

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None: ...
    def run(self) -> WorkerReport:
        """Claim and run rows until `stop`, SIGTERM or Ctrl-C, or with `drain` until no row is due. Returns what became of them."""

    def stop(self, *, grace: str | None = None) -> None:
        """Claim no more. Rows that run have `grace` to end, as given to the worker unless said here; then they are released."""

    def close(self) -> None:
        """`stop`, and wait for the end."""

class BlockingJournal:
    """The events of one entity, numbered from 1. The first Append creates it.

    Errors of every call: `UnknownJournal` for a topic that is not there; `BadInput`; `Unavailable`, such as `OutcomeUnknown` where the log
    could not be written; `Damaged`, such as `LogGap`; `NotOwner`. Over HTTP also `Unreachable`.
    """

    topic: str
    id: str

    @property
    def snapshots(self) -> BlockingJournalSnapshots:
        """Its snapshots: `alice.snapshots.save(state)`. Does no I/O."""

    def append(
        self,
        *events: Any,
        expected: int | None = None,
        tags: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        metadata: Any = None,
        header_metadata: Any = None,
        expire_after: str | None = None,
        idempotency_key: str | None = None,
    ) -> Appended:
        """Append payloads, or `Event`s, as one record, all or none; return their numbers once they are durable.

        A payload is bytes, text, or a value of JSON. `expected`: the last number of the journal, 0 for a new one. `tags`: of every event.
        `headers`: texts by name. `metadata`: JSON that is kept with the events, `header_metadata`: in the record's header. `expire_after`,
        such as "30d": when the journal may be removed. `idempotency_key`: an Append that is sent twice is done once, for a day.

        Errors: `WrongExpected` with the last number; `KeyReused`; `TooLarge`; `BadInput` for no or unordered events and reserved headers;
        `NotOwner` where others write the topic, too, and an event has no number or `expected` is given.
        """

    def delete(self, *, to: int) -> JournalChanged:
        """Delete the events up to a number, with it. Its last number stays. An unknown journal stays unknown."""

    def purge(self) -> JournalChanged:
        """Remove the journal, for good. One that is appended to later begins at 1."""

    def erase(self, *, why: str, dry_run: bool = False) -> ErasedJournal:
        """Remove the journal of an encrypted topic and destroy its keys: nobody can read its events any more. `why`: for the audit.

        One that is appended to later begins at 1, with a new key. Erasing again finishes an erasure that has stopped midway, and otherwise
        does nothing. Errors: `BadInput` for a topic that is not encrypted.
        """

    def mark(self, id: str | None = None) -> JournalChanged:
        """Put a mark into the partition. Whoever has read it has read everything before it."""

    def read(
        self, start: int = 1, *, stop: int | None = None, limit: int | None = None, consistency: Consistency = "end"
    ) -> Generator[EventRecord]:
        """The events from a number on, up to `stop`, with it. Empty for an unknown journal.

        `consistency`: "end", everything that was durable when the read began; "mark", the same through a mark in the log; "store", what is
        copied alone. Errors: `BadBounds`; `Conflict` for a journal that is purged while it is read; `UnreadableRecord`.
        """

    def pointer(self, *, consistency: Consistency = "end") -> int | None:
        """The last number; None for a journal that is not there. Deletes leave it as it is."""

    def head(self, *, consistency: Consistency = "end") -> ShownHead | None:
        """The head: last number, what is deleted, when it was created and expires; None for a journal that is not there."""

    def trail(self, *, limit: int = 100) -> JournalTrail:
        """Its newest records in the log, its head in the store, and how far the store lags behind."""

class BlockingNamedProjection:
    """A projection of a topic by its name, wherever it runs. Decisions are carried out by whoever runs it.

    Errors of every call: `NotFound` for one that nobody has run; `UnknownJournal`; `BadInput`; `Unavailable`. Over HTTP also `Unreachable`.
    """

    topic: str
    name: str

    def status(self) -> asked.ShownProjection:
        """Its partitions: how far they are, how far behind the log, and why one stands."""

    def reset(self, *, why: str = "", dry_run: bool = False) -> asked.ProjectionResets:
        """Let it begin anew, from the first event on. Its `reset` function empties the read model; dead events are forgotten."""

    def dead(self) -> Sequence[asked.ShownDeadEvent]:
        """The events that its handler could not take, and those of their journals that wait."""

    def dead_show(self, partition: int, offset: int, number: int) -> asked.DeadEventContent:
        """A dead event with what it holds."""

    def dead_retry(self, partition: int, offset: int, number: int, *, why: str = "", dry_run: bool = False) -> asked.DeadEventDecided:
        """Let the handler have a dead event again, from the first dead one of its journal on."""

    def dead_drop(self, partition: int, offset: int, number: int, *, why: str = "", dry_run: bool = False) -> asked.DeadEventDecided:
        """Drop a dead event: the handler never gets it. Those of its journal that wait for it go on."""

class BlockingCollectionViews:
    """The views: `hw.documents.views.put("cheap~", "shop/{*}", filter="price < 10")`. Errors: `BadPath`, `Unavailable`."""

    def put(self, path: str, template: str, *, filter: str = "", dry_run: bool = False) -> ShownView:
        """Make a view of what a template names ({*} stands for one segment) and a filter accepts. Errors: `BadFilter`, `Conflict`."""

    def list(self) -> Sequence[ShownView]:
        """Every view, by path."""

    def get(self, path: str) -> ShownView:
        """A view: what it mirrors. Errors: `DocumentNotFound`."""

    def delete(self, path: str, *, dry_run: bool = False) -> None:
        """End a view, and delete its items. Errors: `DocumentNotFound`."""

class BlockingIndexTemplates:
    """Indexes of every collection whose path fits: `hw.documents.templates.put("by-price", "shop/*~", sort="price:decimal")`."""

    def put(
        self,
        index: str,
        template: str,
        *,
        sort: str | Sequence[HyperStorageIndexSortItem] = "",
        filter: str | None = None,
        materialize: bool = False,
        dry_run: bool = False,
    ) -> ShownTemplate:
        """Give every collection whose path fits this index, those that are there and those that come. In `template` * stands for any
        characters but a slash. The rest as of `collection.indexes.create`. Errors: `AlreadyExists`, `BadFilter`."""

    def list(self) -> Sequence[ShownTemplate]:
        """Every template, by id."""

    def get(self, index: str) -> ShownTemplate:
        """A template. Errors: `UnknownIndex`."""

    def delete(self, index: str, *, dry_run: bool = False) -> None:
        """Take a template away; the indexes that it made stay. Errors: `UnknownIndex`."""

class BlockingResource:
    """A document, a collection or an item: `shop = hw.documents["shop/catalogue~"]`, then `shop.put("hat", {"price": 12})`.

    Calls of a collection name the item first; calls of a document or an item name none. Errors of every call: `BadPath`, `BadInput`,
    `DocumentNotFound`, `Unavailable`; over HTTP also `Unreachable`.
    """

    path: str

    @property
    def indexes(self) -> BlockingCollectionIndexes:
        """The indexes of a collection."""

    @property
    def schema(self) -> BlockingCollectionSchema:
        """What the items of a collection must look like."""

    def __getitem__(self, item: str) -> BlockingResource:
        """An item of a collection, by its id. Does no I/O. Errors: `BadPath`, `BadInput`."""

    def get(self, item: str | None = None, *, type: type[B] = ANY_BODY, revision: int | None = None, at: int | None = None) -> Document[B]:
        """A document or an item; of a collection without an item, its first page as HAL. `type`: what its body is decoded into, such as a
        `msgspec.Struct`. `revision`, `at` (ms): as it was then. Errors: `DocumentNotFound`; `OffsetGone` for history that is not kept."""

    def query(
        self,
        filter: str | None = None,
        *,
        sort: str | None = None,
        size: int | None = None,
        skip_max: int | None = None,
        type: type[B] = ANY_BODY,
    ) -> Generator[B]:
        """The items of a collection that fulfil a filter, in an order such as "price:desc,name" or "-price,name", page by page.

        `size`: the most items; None: all. Errors: `BadFilter`; `QueryLimited` with the index that would help.
        """

    def count(self, filter: str | None = None) -> int:
        """How many items fulfil a filter. Errors: as of `query`."""

    def explain(self, filter: str | None = None, *, sort: str | None = None, size: int | None = None) -> Any:
        """How a query is done: the index that it uses and why, how many items it reads, and what is left of its budget."""

    def feed(self, after: int | str | None = None, *, snapshot: bool = False, filter: str | None = None) -> Generator[DocumentChange]:
        """The changes of the document, the collection or the item, those behind a revision and then those that come, for ever.

        `after`: the revision, or the `position` of the last change that was seen; None: only what comes. `snapshot`: its state first.
        `filter`: a live query, of items that enter, change and leave. Without gaps; where history does not reach back, `reset` and a
        snapshot come.
        """

    def since(self, revision: int, item: str | None = None) -> ChangesSince:
        """What has changed after a revision: the states of items now, and which were deleted. For a client that was away; it asks again
        from the answer's `revision` on. Where history does not reach back so far, `reset` is true: read everything."""

    def history(self, item: str | None = None, *, after: int | None = None, reverse: bool = False) -> Generator[DocumentChange]:
        """The changes that the log keeps, by revision. `after`: those behind a revision; with `reverse` those before it, newest first."""

    def put(
        self,
        item: Any,
        body: Any = MISSING,
        *,
        if_match: str | int | None = None,
        if_none_match: str | int | None = None,
        ttl: str | Duration | None = None,
        idempotency_key: str | None = None,
    ) -> HyperStorageTransactionCreated:
        """Create or replace: `put(id, body)` an item of a collection, `put(body)` the document. Returns its revision, and whether it is
        new. `if_match`: an etag or a revision that it must have; `if_none_match="*"`: it must not be there. `ttl`: how long it lives.
        Errors: `NotMatched`, `UnfitBody`."""

    def patch(
        self,
        item: Any,
        body: Any = MISSING,
        *,
        kind: PatchKind = "merge",
        if_match: str | int | None = None,
        ttl: str | Duration | None = None,
        idempotency_key: str | None = None,
    ) -> HyperStorageTransactionCreated:
        """Change fields: `patch(id, body)` of an item, `patch(body)` of the document. `kind`: merge, null removes a field (RFC 7386);
        operations, a list of them (RFC 6902); increment, numbers that are added. Errors: `DocumentNotFound`, `NotMatched`, `UnfitBody`."""

    def post(self, body: Any, *, ttl: str | Duration | None = None, idempotency_key: str | None = None) -> HyperStorageTransactionCreated:
        """Add an item to the collection, under an id that is greater than every one before it; `path` of the answer names it."""

    def delete(
        self, item: str | None = None, *, if_match: str | int | None = None, idempotency_key: str | None = None
    ) -> HyperStorageTransactionCreated:
        """Delete an item, the document, or without an item the whole collection. Errors: `DocumentNotFound`, `NotMatched`."""

    def restore(
        self, item: str | int, revision: int | None = None, *, if_match: str | int | None = None, dry_run: bool = False
    ) -> HyperStorageTransactionCreated:
        """Give it the state again that it had: `restore(id, revision)` an item, `restore(revision)` the document. Errors: `OffsetGone`."""

    def batch(self, writes: Sequence[BatchWrite], *, idempotency_key: str | None = None) -> Sequence[HyperStorageTransactionCreated]:
        """Several writes to the collection or the document that count together or not at all: method, path and body of each, such as
        ("put", "shop/catalogue~/hat", {"price": 12}). Errors: those of the first write that cannot be done."""

class BlockingJournalSnapshots:
    """The snapshots of one journal: what its events have made of an entity, up to a number. The store keeps the newest 10.

    A snapshot belongs to one life of the journal: a purge takes it. Errors of every call: as of `Journal`.
    """

    topic: str
    id: str

    def save(self, payload: Any, seq_nr: int | None = None, *, offset: int | None = None) -> SavedSnapshot:
        """Save a snapshot; return where it lies once it is durable. `payload`: bytes, text, or a value of JSON.

        `seq_nr`: the event up to which it holds; None: the last one. A snapshot of the same number gives way to it. `offset`: of that
        event's record: where the journal was purged meanwhile and has another event of that number, or none, nothing is saved.
        Errors: `NotFound` where there is no journal; `BadBounds` for a number behind its last; `Conflict` where the event does not lie at
        `offset`; `TooLarge`; `BadInput`.
        """

    def load(
        self,
        *,
        min_seq_nr: int | None = None,
        max_seq_nr: int | None = None,
        min_timestamp: int | None = None,
        max_timestamp: int | None = None,
    ) -> SnapshotRecord | None:
        """The newest snapshot within the bounds, both ends inclusive; None: there is none. Sees every save that is durable.

        Times are milliseconds since 1970, UTC. Errors: `BadBounds` for bounds the wrong way round.
        """

    def list(
        self,
        *,
        min_seq_nr: int | None = None,
        max_seq_nr: int | None = None,
        min_timestamp: int | None = None,
        max_timestamp: int | None = None,
    ) -> Sequence[SnapshotRecord]:
        """The snapshots within the bounds, the newest first, without their payloads. Errors: as `load`."""

    def delete(
        self,
        seq_nr: int | None = None,
        *,
        min_seq_nr: int | None = None,
        max_seq_nr: int | None = None,
        min_timestamp: int | None = None,
        max_timestamp: int | None = None,
        dry_run: bool = False,
    ) -> DeletedSnapshots:
        """Delete the snapshot of a number, or those within the bounds. Events stay. Errors: `BadInput` for neither and for both."""

class BlockingCollectionIndexes:
    """The indexes of a collection: `shop.indexes.create("by-price", sort="price:decimal")`. Errors: `BadPath`, `Unavailable`."""

    def create(
        self,
        index: str | None = None,
        *,
        sort: str | Sequence[HyperStorageIndexSortItem] = "",
        filter: str | None = None,
        materialize: bool = False,
        dry_run: bool = False,
    ) -> HyperStorageIndexCreated:
        """Make an index, which is built in the background. `sort`: fields with commas between, a - before those that fall, and :decimal
        behind those that hold numbers, such as "-price:decimal,name"; none: by id; or the fields themselves. `filter`: of its
        items.

        Errors: `AlreadyExists`, `BadFilter`.
        """

    def put(
        self,
        index: str,
        *,
        sort: str | Sequence[HyperStorageIndexSortItem] = "",
        filter: str | None = None,
        materialize: bool = False,
        dry_run: bool = False,
    ) -> HyperStorageIndexCreated:
        """As `create`; an index of this id that is there and the same stays as it is. Errors: `AlreadyExists` where it is another one."""

    def list(self) -> Sequence[HyperStorageIndex]:
        """Every index of the collection, and how far it is built."""

    def status(self, index: str) -> HyperStorageIndex:
        """An index, and how far it is built. Errors: `UnknownIndex`."""

    def drop(self, index: str, *, dry_run: bool = False) -> None:
        """Drop an index. Errors: `UnknownIndex`."""

class BlockingCollectionSchema:
    """What the items of a collection must look like: `shop.schema.put({"required": ["price"]})`. Errors: `BadPath`, `Unavailable`."""

    def put(self, schema: Any, *, dry_run: bool = False) -> None:
        """Give the collection a JSON Schema: from now on a write of an item that does not fit it is `UnfitBody`, which names the field.
        Items that are there stay. Errors: `BadInput` for what is no schema, or has a keyword that is not known; `ViewModification`."""

    def get(self) -> Any:
        """The schema. Errors: `DocumentNotFound` where the collection has none."""

    def delete(self, *, dry_run: bool = False) -> None:
        """Take the schema away. Errors: `DocumentNotFound` where the collection has none."""

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
    pipelines: BlockingPipelines
    wal: BlockingWriteAheadLog
    queue: BlockingQueues
    journals: BlockingJournals
    documents: BlockingDocuments
    def __init__(self, door: Headwater) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def close(self) -> None:
        """Close the door and end the thread. Closing twice is no error."""
