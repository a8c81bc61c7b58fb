"""A region that this process owns: tables that write ahead into one log, and forget on their own what they have flushed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, takewhile
from typing import TypeVar

from headwater.cluster import OwnedPartition, Ownership
from headwater.core.errors import (
    Closed,
    NotOwner,
    RegionNotFound,
    Timeout,
    UnknownTable,
    UnknownTopic,
)
from headwater.log import Log, Writer
from headwater.wal.bounds import End, SequenceRange, Start, sequence_range
from headwater.wal.entries import BATCH, EntryReader, Wanted, late_region_places, late_table_places, sequence_places, table_places
from headwater.wal.gates import TableGates
from headwater.wal.layout import EMPTY, RecordKind, encode_payloads
from headwater.wal.recovery import Recovered, StoredSnapshot, recover
from headwater.wal.region_appender import Numbers, RecordEnd, Settled
from headwater.wal.region_creation import create_meta, lost_meta
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_observer import RegionObserver
from headwater.wal.region_outcomes import Cleaned, TableMark
from headwater.wal.region_topics import PART, RegionTopics, checked_id
from headwater.wal.region_writer import RegionWriter
from headwater.wal.snapshots import KEPT, SnapshotStore
from headwater.wal.table_scan import look_up, scan_payloads
from headwater.wal.thread_turns import ThreadTurns

T = TypeVar("T")
_MOVED = 1 << 20  # bytes of payloads that a move copies at once
_AT_ONCE = 1 << 16  # payloads that a move copies at once: each batch makes a new map of the table, and reads its record again


class Region:
    """An open region. Belongs to the event loop that opened it.

    Guarantees: a sequence that `write` returned is durable, and no sequence ever has two payloads. What is marked, dropped or cleaned is
    gone for good only when the call has returned. Errors of every call: `Closed`; `Fenced` once another process has taken the region.
    """

    def __init__(self, log: Log, topics: RegionTopics, *, owned: OwnedPartition, snapshots: SnapshotStore, recovered: Recovered) -> None:
        """`open_region` makes it."""
        self.topics, self.recovered, self.observer = topics, recovered, RegionObserver()
        self.settled: list[Settled] = []
        """Calls that the event loop makes after each commit, once its futures have ended: for owners of tables, as `append` has them."""
        self._log, self._owned, self._snapshots = log, owned, snapshots
        self._writer = RegionWriter(log, owned, recovered.meta, topics.region, settled=self.settled)
        self._turns = ThreadTurns()  # of one snapshot or clean at a time
        self._gates = TableGates()  # marks and drops wait while a batch of their table is moved
        self._closed = self._released = False

    # -- writing ------------------------------------------------------------------------------------------------

    async def write(self, table: int, payloads: Sequence[bytes], *, timeout: float | None = None) -> int:
        """Append payloads as one record; return the sequence of the last one once they are durable.

        Errors: `BadInput`, `TooLarge`; `OutcomeUnknown`; `Timeout` after so many seconds: the payloads may become durable later.
        """
        value, count = encode_payloads(payloads), len(payloads)
        while (future := self._writer.write(table, value, count)) is None:
            await self._ready(timeout)
        if timeout is None:
            return await future
        last = self._writer.tables[table].next - 1
        return await _within(timeout, future, f"The payloads {last - count + 1} to {last} of table {table}")

    @property
    def limit(self) -> int:
        """The most bytes of a record's value."""
        return self._writer.limit

    def append(self, table: int, value: bytes, sequence: int, answer: T) -> asyncio.Future[T] | None:
        """Queue a payload, without a coroutine; return a future that ends with `answer` once it is durable.

        For owners of a table that know its numbers and change their state when they call. `value`: `EMPTY` and the payload, as
        `headwater.wal.layout` has it. `sequence`: the payload's. None, and nothing was done, where another one is next, and after a
        failed append: `ready` says when to go on. Errors: `BadInput`, `TooLarge`; those of the future: as for `write`.
        """
        return self._writer.append(table, value, sequence, answer)

    def append_for(self, table: int, value: bytes, sequence: int, end: RecordEnd) -> None:
        """`append` of a payload that several calls share: `end` tells them. It is committed by `start`, or with any other one.

        Errors: also those for which `append` returns None.
        """
        self._writer.append_for(table, value, sequence, end)

    def start(self) -> None:
        """Commit what `append_for` has queued."""
        self._writer.start()

    async def ready(self) -> None:
        """Return when the region can be written. After a failed append, that is once its end is read: what is durable is known then.

        Errors: `Fenced`, `Closed`; what reading raises, which the next call tries again.
        """
        await self._writer.ready()

    async def mark_delete_up_to(self, table: int, sequence: int) -> TableMark:
        """Forget the payloads up to `sequence`, with it: they are safe elsewhere. Return what is forgotten by now.

        Beyond the last sequence, all are forgotten; below an earlier mark, nothing changes. Errors: `UnknownTable`.
        """
        checked_id(table, "table")
        checked_id(sequence, "sequence")
        async with self._gates.alone(table) as waited:
            await self._writer.ready()  # here: a mark before this one may have failed
            numbers = self._known(table)
            boundary, clamped = min(sequence + 1, numbers.next), sequence >= numbers.next
            if boundary > numbers.marked:
                future = self._writer.add(RecordKind.MARK, table, boundary, EMPTY)
                numbers.marked = boundary
                await waited(future)
                self.observer.marked()
            return TableMark(max(boundary, numbers.marked) - 1, clamped=clamped)

    async def drop_table(self, table: int) -> None:
        """Forget a table and all of its payloads. One that is written later under its number begins at 1. Errors: `UnknownTable`."""
        checked_id(table, "table")
        async with self._gates.alone(table) as waited:
            await self._writer.ready()
            numbers = self._known(table)
            future = self._writer.add(RecordKind.DROP, table, numbers.next, EMPTY)
            del self._writer.tables[table]
            await waited(future)
        self.observer.dropped()

    async def move(self, table: int) -> int:
        """Copy the live payloads of a table to the end of the log, so that it no longer pins what lies before; return how many.

        Their sequences stay. Errors: `UnknownTable`.
        """
        checked_id(table, "table")
        await self._writer.ready()
        self._known(table)
        with self._writer.locked:
            until, state = self._writer.meta.watermark, self._writer.meta.tables.get(table)
            at, last = (1, 0) if state is None else (state.marked, state.next - 1)
        moved = 0
        while at <= last:
            at, count = await self._move_some(table, at, last=last, until=until)
            moved += count
        return moved

    async def _move_some(self, table: int, at: int, *, last: int, until: int) -> tuple[int, int]:
        """Copy payloads from the sequence `at` on that lie before `until`; return where to go on, and how many were copied."""
        async with self._gates.alone(table) as waited:  # a mark or a drop between reading them and writing them would bring them back
            await self._writer.ready()
            numbers = self._writer.tables.get(table)
            with self._writer.locked:
                places = table_places(self._writer.meta, table, SequenceRange(at, last))
            entries = await EntryReader(self._log, self.topics, places, batch=_AT_ONCE, most=_MOVED).next_batch()
            if numbers is None or not entries:  # flushed or dropped meanwhile
                return last + 1, 0
            if self._writer.tables.get(table) is not numbers:  # claimed anew: a drop that seemed to fail may be in the log
                return at, 0
            later = list(takewhile(lambda entry: entry.offset >= until, entries))
            if later:
                return later[-1].sequence + 1, 0
            payloads = [entry.payload for entry in takewhile(lambda entry: entry.offset < until, entries)]
            room = min(_MOVED, self._writer.limit)
            sizes = accumulate((4 + len(payload) for payload in payloads), initial=5)
            fit = max(1, sum(size <= room for size in sizes) - 1)
            first = entries[0].sequence
            await waited(self._writer.add(RecordKind.MOVE, table, first, encode_payloads(payloads[:fit]), len(payloads[:fit])))
            return first + len(payloads[:fit]), len(payloads[:fit])

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, table: int, start: Start = "min", end: End = "max", *, batch: int = BATCH) -> EntryReader:
        """The live payloads of a table between two bounds, as they are now. Empty for an unknown table. Errors: `BadBounds`."""
        checked_id(table, "table")
        self._check_open()
        wanted = sequence_range(start, end)
        with self._writer.locked:
            places = late_table_places(self._writer.meta, table, wanted)
        return EntryReader(self._log, self.topics, places, batch=batch)

    def payloads(self, table: int) -> Iterator[tuple[int, list[bytes]]]:
        """All live payloads of a table as they are now, in large parts: the first sequence of each, and its payloads. Blocking, and quick.

        For an owner that folds its table. Errors: `OffsetGone` where they are cleaned meanwhile; `Damaged`.
        """
        checked_id(table, "table")
        self._check_open()
        with self._writer.locked:
            places = table_places(self._writer.meta, table, sequence_range("min", "max"))
        return scan_payloads(self._log, self.topics, places)

    def payloads_at(self, table: int, sequences: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Live payloads of a table, each with its sequence. Blocking, as `payloads`. Errors: `OffsetGone` for one that is flushed."""
        self._check_open()
        with self._writer.locked:
            places = sequence_places(self._writer.meta, table, sequences)
        return look_up(self._log, self.topics, places)

    def scan(self, *, wanted: Wanted | None = None, batch: int = BATCH) -> EntryReader:
        """The live payloads of all tables in the order of the log, as they are now. `wanted`: which tables."""
        self._check_open()
        with self._writer.locked:  # for as long as a copy takes: every write waits for it
            places = late_region_places(self._writer.meta, wanted)
        return EntryReader(self._log, self.topics, places, batch=batch)

    def sequence_num(self, table: int) -> int:
        """The last sequence that a table has durably; 0 for an unknown one."""
        checked_id(table, "table")
        self._check_open()
        with self._writer.locked:
            known = self._writer.meta.tables.get(table)
            return 0 if known is None else known.next - 1

    def look(self, see: Callable[[RegionMeta], T]) -> T:
        """What `see` finds in the state. Nothing changes it meanwhile: `see` must be quick, and keep nothing of it."""
        with self._writer.locked:
            return see(self._writer.meta)

    @property
    def snapshots(self) -> Sequence[StoredSnapshot]:
        """Those that are stored, the oldest first."""
        return tuple(self._snapshots.stored)

    @property
    def fenced(self) -> bool:
        """Whether a write was `Fenced`: another process has taken the region, and no later write of this one counts. Does no I/O."""
        return self._writer.fenced

    @property
    def lost(self) -> bool:
        """Whether another process is known to own the region by now. False proves nothing: only a write does."""
        return self._owned.lost

    def overtaken(self) -> bool:
        """`lost`, by a look at the log. Blocking."""
        return self._owned.overtaken()

    # -- housekeeping -------------------------------------------------------------------------------------------

    async def snapshot(self) -> StoredSnapshot:
        """Store the state as it is now, so that a restart reads only what comes behind it."""
        return await self._turns.take(self._snapshot, first=self._check_open)

    async def clean(self) -> Cleaned:
        """Remove what no table needs from the log's beginning.

        1. Store a snapshot, twice where the one before it lies below the cut: two that can be recovered from stay. 2. Then truncate.
        """
        return await self._turns.take(self._clean, first=self._check_open)

    def _snapshot(self) -> StoredSnapshot:
        began = time.perf_counter()
        return self._store(*self._state(), began)

    def _state(self) -> tuple[list[bytes], int]:
        """The state as a snapshot's chunks, and its watermark."""
        with self._writer.locked:  # for as long as a copy takes: every write waits for it
            meta = self._writer.meta.copied()
        return self._snapshots.encoded(meta), meta.watermark

    def _store(self, chunks: Sequence[bytes], watermark: int, began: float) -> StoredSnapshot:
        stored = self._snapshots.store(chunks, watermark)
        self.observer.stored(sum(map(len, chunks)), time.perf_counter() - began)
        return stored

    def _clean(self) -> Cleaned:
        with self._writer.locked:
            cut = self._writer.meta.safe_offset
        before, began = self._log.bounds(self.topics.data, 0).start, time.perf_counter()
        chunks, watermark = self._state()
        self._log.with_reserve(lambda: self._store(chunks, watermark, began))
        if cut <= before:
            return Cleaned(before, 0)
        while len(self._snapshots.stored) < 2 or self._snapshots.stored[-2].watermark < cut:
            # The same once more: writes wait while a state is copied, and share a processor with its encoding.
            self._log.with_reserve(lambda: self._store(chunks, watermark, time.perf_counter()))
        if cut == self._log.bounds(self.topics.data, 0).end and self._log.engine == "embedded":
            self._writer.housekeep(lambda writer: writer.roll())  # only closed segments can be removed
        start = self._writer.housekeep(lambda writer: writer.delete_before(cut))
        return Cleaned(start, start - before)

    async def roll(self) -> int:
        """Close the active segment of the log where its period is over; return where the next one begins. Kafka: `Unsupported`."""
        return await self._turns.take(lambda: self._writer.housekeep(lambda writer: writer.roll(due=True)), first=self._check_open)

    async def close(self) -> None:
        """Finish the calls under way, and let another process own the region. Closing twice is no error."""
        await self._close(last_snapshot=False)

    async def close_gracefully(self) -> None:
        """`close` with a last snapshot, so that the next opening reads nothing but that."""
        await self._close(last_snapshot=True)

    async def _close(self, *, last_snapshot: bool) -> None:
        self._closed = True
        await asyncio.shield(asyncio.ensure_future(self._end(last_snapshot)))  # one that is given up in the midst would stay owned

    async def _end(self, last_snapshot: bool) -> None:
        try:
            await self._writer.aclose()
        finally:
            async with self._turns.lock:  # a clean that goes on must be the owner's
                try:
                    if last_snapshot and not self._released:
                        await asyncio.to_thread(self._snapshot)
                finally:
                    self._released = True
                    await asyncio.to_thread(self._owned.release)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"The region {self.topics} is closed.", hint="Open it again.")

    async def _ready(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._writer.ready()
        except TimeoutError:
            raise Timeout(
                f"Region {self.topics} is still being claimed anew after {timeout:g} s. Nothing was written.", hint="Try again later."
            ) from None

    def _known(self, table: int) -> Numbers:
        numbers = self._writer.tables.get(table)
        if numbers is None:
            raise UnknownTable(f"Region {self.topics} has no table {table}.", hint=f"List them with `headwater wal tables {self.topics}`.")
        return numbers


async def open_region(
    log: Log, ownership: Ownership, topics: RegionTopics, *, take_over: bool = False, accept_loss: bool = False
) -> Region:
    """Own a region and recover its state. `accept_loss`: as for `recover`.

    Errors: `RegionNotFound`; `NotOwner` while another process owns it, unless `take_over`; `MetaLost`, `Damaged`.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(_opened, log, ownership, topics, take_over=take_over, accept_loss=accept_loss))
    try:
        owned, snapshots, recovered = await asyncio.shield(opening)
    except asyncio.CancelledError:  # nobody else would let another process own it
        opening.add_done_callback(lambda late: None if late.cancelled() or late.exception() else late.result()[0].release())
        raise
    return Region(log, topics, owned=owned, snapshots=snapshots, recovered=recovered)


def _opened(
    log: Log, ownership: Ownership, topics: RegionTopics, *, take_over: bool, accept_loss: bool
) -> tuple[OwnedPartition, SnapshotStore, Recovered]:
    """1. Own the data topic: a former owner cannot truncate it any more. 2. Claim the meta topic: all snapshots that count are there.
    3. Recover, from a state that nobody else changes."""
    try:
        owned = ownership.own(topics.data, 0, take_over=take_over, part=PART)
        while not owned.use():  # two regions would number on their own, and write as one owner
            if not take_over:
                raise NotOwner(f"Region {topics} is open in this process already.", hint="Use the one that is open, or close it.")
            owned.release()
            owned = ownership.own(topics.data, 0, take_over=True, part=PART)
    except UnknownTopic:
        raise RegionNotFound(
            f"There is no region {topics}.",
            hint=f"Create it with `headwater wal create {topics}`, or list regions with `headwater wal regions`.",
        ) from None
    try:
        writer = _claimed_meta(log, topics, accept_loss)
        recovered = recover(log, topics, accept_loss=accept_loss)
        snapshots = SnapshotStore(log, writer, topics, recovered.snapshots)
        for _ in range(KEPT if recovered.accepted else 0):  # nothing else tells the state that was accepted
            snapshots.store(snapshots.encoded(recovered.meta), recovered.meta.watermark)
        return owned, snapshots, recovered
    except BaseException:
        owned.release()
        raise


def _claimed_meta(log: Log, topics: RegionTopics, accept_loss: bool) -> Writer:
    """The meta topic's Writer. One that was deleted is made again, where the region can be recovered without it. Errors: `MetaLost`."""
    try:
        return log.claim(topics.meta, 0, part=PART)
    except UnknownTopic:
        recover(log, topics, accept_loss=accept_loss)
        create_meta(log, topics, lost_meta(log, topics))
        return log.claim(topics.meta, 0, part=PART)


async def _within(seconds: float, future: asyncio.Future[int], what: str) -> int:
    done, _ = await asyncio.wait({future}, timeout=seconds)
    if not done:
        future.add_done_callback(lambda late: late.cancelled() or late.exception())  # nobody else looks at it
        raise Timeout(
            f"{what} are not durable after {seconds:g} s.", hint="They may become so later: read the table before writing them again."
        )
    return future.result()
