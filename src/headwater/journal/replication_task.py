"""Copies records of one partition into the store: reads them, folds them, applies what they change. Spark's tasks and the replicator itself
both call `copy_partition`; nothing else writes to a store of journals.

The store's pointer says where to begin, whatever the plan said. So a task that runs again, after its process died, goes on where the
pointer stands, and a task that another one has overtaken does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from headwater.core.errors import Conflict, HeadwaterError, LogGap, OffsetGone, TaskFailed, Unavailable, UnreadableRecord
from headwater.journal.change import Pointer
from headwater.journal.claims import has_claims
from headwater.journal.copies import Folded, apply_to, fold_records, fold_scanned, open_copy
from headwater.journal.counts import noted_counts
from headwater.journal.discovery import Holds, JournalTopic
from headwater.journal.names import SNAPSHOTS
from headwater.journal.range_fold import FoldedRange
from headwater.journal.store import CopyStore, JournalStore
from headwater.journal.tally import CopyTally
from headwater.log import Log
from headwater.log.arrow import lengths

RECORDS = 20_000
"""The most records that one change holds, so that memory stays flat however long the range is."""
BYTES = 32 << 20
_FEW = 500  # records that are cheaper to read one by one than as columns
_COLUMNS = ("key", "value", "headers")
_FIRST_ROWS, _MOST_ROWS = 1000, 8192  # of one batch of columns
_TIMES = 5  # how often a task plans anew because another one has moved the pointer


class PartitionTask(msgspec.Struct, frozen=True, kw_only=True):
    """Copy the records of a partition up to `end` (exclusive). `skip`: offsets that are quarantined."""

    topic: str
    partition: int
    generation: str
    end: int
    skip: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()  # of partitions that the topic has had, older ones first, where it grew
    holds: Holds = "journals"

    @property
    def of(self) -> JournalTopic:
        """Its topic, as far as a copy needs it."""
        return JournalTopic(self.topic, self.partition + 1, self.generation, self.holds)


class PartitionProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a partition did not reach the end of its task. `offset`: of the record that cannot be read; -1: no record is to blame."""

    code: str
    message: str
    hint: str = ""
    offset: int = -1

    @property
    def poison(self) -> bool:
        """Whether one record stops the partition: waiting does not help, only a decision about the record."""
        return self.offset >= 0


class PartitionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a task did. `pointer`: of the store when it ended; None: the store did not say. `records`: the offsets that it copied."""

    topic: str
    partition: int
    pointer: int | None
    records: int = 0
    journals: int = 0
    timestamp: int = 0  # of the newest record that was copied, milliseconds; 0: none was
    bytes: int = 0  # of keys and values, and of headers where columns were read
    tally: CopyTally = msgspec.field(default_factory=CopyTally)
    problem: PartitionProblem | None = None


def copy_partition(
    log: Log,
    store: JournalStore,
    task: PartitionTask,
    *,
    stopped: Callable[[], bool] = lambda: False,
    records: int = RECORDS,
    max_bytes: int = BYTES,
) -> PartitionOutcome:
    """Copy what the store lacks, change by change. Every error becomes the outcome's `problem`; what lies before is copied.

    `stopped` is asked between two changes.
    """
    copying = _Copying(log, task, records, max_bytes, counts=lambda: noted_counts(store, task.of))
    problem = None
    try:
        copy = open_copy(store, task.of, task.partition)
        assert copy is not None
        copying.run(copy, stopped)
    except HeadwaterError as error:
        problem = problem_of(error)
    except OSError as error:
        problem = PartitionProblem(code=Unavailable.code, message=str(error), hint="It is tried again.")
    except Exception as error:  # a fault of ours: it must not keep the other partitions
        logging.getLogger("headwater.journal").exception("%s/%d cannot be copied", task.topic, task.partition)
        problem = PartitionProblem(code=TaskFailed.code, message=f"{type(error).__name__}: {error}", hint="See the log messages.")
    return PartitionOutcome(
        topic=task.topic,
        partition=task.partition,
        pointer=copying.pointer.offset if copying.known else None,
        records=copying.copied,
        journals=copying.journals,
        timestamp=copying.timestamp,
        bytes=copying.bytes,
        tally=copying.tally,
        problem=problem,
    )


def problem_of(error: HeadwaterError) -> PartitionProblem:
    """An error as an outcome carries it."""
    offset = error.offset if isinstance(error, UnreadableRecord) else -1
    return PartitionProblem(code=error.code, message=error.message, hint=error.hint, offset=offset)


class _Copying:
    """One call of `copy_partition`: how far it has come."""

    def __init__(
        self, log: Log, task: PartitionTask, records: int, max_bytes: int, *, counts: Callable[[], tuple[int, ...]] = lambda: ()
    ) -> None:
        self._log, self._task, self._records, self._bytes, self._noted = log, task, records, max_bytes, counts
        self.pointer, self.known, self._rows = Pointer(-1), False, _FIRST_ROWS
        self.copied = self.journals = self.timestamp = self.bytes = 0
        self.tally = CopyTally()
        self._size = 0  # of what was folded last
        self._claimed = True

    def run(self, store: CopyStore, stopped: Callable[[], bool]) -> None:
        self.pointer, self.known, conflicts = store.pointer(), True, 0
        self._claimed = self._task.holds == "journals" and has_claims(self._log, self._task.topic)
        while self.pointer.offset + 1 < self._task.end and not stopped():
            try:
                moved = self._apply(store)
            except Conflict:
                conflicts += 1
                if conflicts == _TIMES:
                    raise
                moved = False
            if not moved:  # another task has come further: go on behind it
                self.pointer = store.pointer()

    def _apply(self, store: CopyStore) -> bool:
        """Fold and apply the next records. False: the pointer is not where it was."""
        task, start, begun = self._task, self.pointer.offset + 1, self.pointer.begun
        try:
            # A change that was begun and never finished is finished as it is: the store takes no other one.
            folded = self._fold(start, begun) if begun > start else self._fold(start, min(task.end, start + self._records), self._bytes)
        except OffsetGone as error:
            raise gap(task.topic, task.partition, start, self._log.bounds(task.topic, task.partition).start) from error
        change = folded.change
        if change.end > change.start:
            if not apply_to(store, folded, self._counts() if change.journals else task.counts):
                return False
            if isinstance(folded, FoldedRange):
                self.tally.add(folded.tally)
            self.bytes += self._size
            self.pointer = Pointer(change.end - 1, generation=task.generation, epoch=change.epoch)
            self.copied += change.end - change.start
            self.journals += len(change.journals)
            self.timestamp = change.timestamp or self.timestamp
        if folded.poison is not None:
            raise folded.poison
        return True

    def _counts(self) -> tuple[int, ...]:
        """The numbers of partitions that the topic has had. Who appends notes a new one before its first record, and the task may have been
        planned before that."""
        counts = self._task.counts
        return counts if self._log.engine == "embedded" else max(counts, self._noted(), key=len)

    def _fold(self, start: int, end: int, max_bytes: int | None = None) -> Folded:
        """Fold [start, end), or the beginning of it that is no larger than `max_bytes`; None: all of it."""
        task = self._task
        if end - start <= _FEW and max_bytes is not None:
            records = self._log.read(task.topic, task.partition, start, limit=end - start, max_bytes=max_bytes)
            while records and (records[-1].offset or 0) >= end:
                records.pop()
            complete = not records or len(records) == end - start
            self._size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
            end = end if complete else (records[-1].offset or 0) + 1  # a short answer may end at the bound on bytes: ask for the rest anew
            return fold_records(
                task.of, task.partition, start, end, records, epoch=self.pointer.epoch, skip=task.skip, claimed=self._claimed
            )
        batches, size = [], 0
        for batch in self._log.scan(task.topic, task.partition, start, end, batch=self._rows):
            batches.append(batch)
            size += sum(int(lengths(batch.column(name)).sum()) for name in _COLUMNS)  # nbytes would count the files behind the views
            if max_bytes is not None and size > max_bytes:
                end = batch.column("offset")[-1].as_py() + 1
                break
        self._size, count = size, sum(batch.num_rows for batch in batches)
        if count:
            self._rows = max(1, min(_MOST_ROWS, self._bytes * count // max(size, 1)))  # of the next batch: large records come in small ones
        return fold_scanned(task.of, task.partition, start, end, batches, epoch=self.pointer.epoch, skip=task.skip, claimed=self._claimed)


def gap(topic: str, partition: int, wanted: int, start: int) -> LogGap:
    """The error for a store that lacks records which the log no longer has."""
    return LogGap(
        f"The log of {topic}/{partition} begins at offset {start}, and the store lacks the records {wanted} to {start - 1}.",
        hint=f"Bring the store back from a backup, or start it from a base: `headwater journal rebuild {topic.removeprefix(SNAPSHOTS)}`.",
    )
