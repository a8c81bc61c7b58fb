"""A region that this process owns: tables that write ahead into one log, and forget on their own what they have flushed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import accumulate, takewhile

import msgspec

from headwater.cluster import OwnedPartition, Ownership
from headwater.core.errors import RegionNotFound, Timeout, UnknownTable, UnknownTopic
from headwater.log import Log
from headwater.log.record import TopicSettings
from headwater.wal.bounds import End, SequenceRange, Start, sequence_range
from headwater.wal.entries import BATCH, EntryReader, Wanted, region_places, table_places
from headwater.wal.layout import EMPTY, RecordKind, encode_payloads
from headwater.wal.recovery import Recovered, StoredSnapshot, recover
from headwater.wal.region_appender import Numbers
from headwater.wal.region_topics import PART, RegionTopics, checked_id
from headwater.wal.region_writer import RegionWriter
from headwater.wal.snapshot import encode_snapshot
from headwater.wal.snapshots import SnapshotStore

_MOVED = 1 << 20  # bytes of payloads that a move copies at once


class TableMark(msgspec.Struct, frozen=True):
    """What `mark_delete_up_to` has done: everything up to `sequence` is flushed. `clamped`: more was asked for than was written."""

    sequence: int
    clamped: bool = False


class Cleaned(msgspec.Struct, frozen=True):
    """What a clean has done: the log begins at `start` now, and has `removed` fewer offsets."""

    start: int
    removed: int


class Region:
    """An open region. Belongs to the event loop that opened it.

    Guarantees: a sequence that `write` returned is durable, and no sequence ever has two payloads. What is marked, dropped or cleaned is
    gone for good only when the call has returned. Errors of every call: `Closed`; `Fenced` once another process has taken the region.
    """

    def __init__(self, log: Log, topics: RegionTopics, *, owned: OwnedPartition, snapshots: SnapshotStore, recovered: Recovered) -> None:
        """`open_region` makes it."""
        self.topics, self.recovered = topics, recovered
        self._log, self._owned, self._snapshots = log, owned, snapshots
        self._writer = RegionWriter(log, owned, recovered.meta, topics.region)
        self._storing = asyncio.Lock()  # of one snapshot or clean at a time
        self._gates: dict[int, asyncio.Lock] = {}  # by table: marks and drops wait while a batch of it is moved

    # -- writing ------------------------------------------------------------------------------------------------

    async def write(self, table: int, payloads: Sequence[bytes], *, timeout: float | None = None) -> int:
        """Append payloads as one record; return the sequence of the last one once they are durable.

        Errors: `BadInput`, `TooLarge`; `OutcomeUnknown`; `Timeout` after so many seconds: the payloads may become durable later.
        """
        value, count = encode_payloads(payloads), len(payloads)
        while (future := self._writer.write(table, value, count)) is None:
            await self._writer.ready()
        if timeout is None:
            return await future
        last = self._writer.tables[table].next - 1
        return await _within(timeout, future, f"The payloads {last - count + 1} to {last} of table {table}")

    async def mark_delete_up_to(self, table: int, sequence: int) -> TableMark:
        """Forget the payloads up to `sequence`, with it: they are safe elsewhere. Return what is forgotten by now.

        Beyond the last sequence, all are forgotten; below an earlier mark, nothing changes. Errors: `UnknownTable`.
        """
        checked_id(table, "table")
        checked_id(sequence, "sequence")
        await self._writer.ready()
        async with self._gate(table):
            numbers = self._known(table)
            boundary = min(sequence + 1, numbers.next)
            if boundary > numbers.marked:
                future = self._writer.add(RecordKind.MARK, table, boundary, EMPTY)
                numbers.marked = boundary
                await future
            return TableMark(max(boundary, numbers.marked) - 1, clamped=sequence >= numbers.next)

    async def drop_table(self, table: int) -> None:
        """Forget a table and all of its payloads. One that is written later under its number begins at 1. Errors: `UnknownTable`."""
        checked_id(table, "table")
        await self._writer.ready()
        async with self._gate(table):
            numbers = self._known(table)
            future = self._writer.add(RecordKind.DROP, table, numbers.next, EMPTY)
            del self._writer.tables[table]
            await future
        await self.snapshot()

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
        async with self._gate(table):  # a mark or a drop between reading them and writing them would bring them back
            with self._writer.locked:
                places = table_places(self._writer.meta, table, SequenceRange(at, last))
            entries = await EntryReader(self._log, self.topics, places).next_batch()
            if not entries:  # flushed or dropped meanwhile
                return last + 1, 0
            there = list(takewhile(lambda entry: entry.offset >= until, entries))
            if there:
                return there[-1].sequence + 1, 0
            payloads = [entry.payload for entry in takewhile(lambda entry: entry.offset < until, entries)]
            fit = max(1, sum(1 for size in accumulate(map(len, payloads)) if size <= _MOVED))
            first = entries[0].sequence
            await self._writer.add(RecordKind.MOVE, table, first, encode_payloads(payloads[:fit]), len(payloads[:fit]))
            return first + len(payloads[:fit]), len(payloads[:fit])

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, table: int, start: Start = "min", end: End = "max", *, batch: int = BATCH) -> EntryReader:
        """The live payloads of a table between two bounds, as they are now. Empty for an unknown table. Errors: `BadBounds`."""
        checked_id(table, "table")
        wanted = sequence_range(start, end)
        with self._writer.locked:
            places = table_places(self._writer.meta, table, wanted)
        return EntryReader(self._log, self.topics, places, batch=batch)

    def scan(self, *, wanted: Wanted | None = None, batch: int = BATCH) -> EntryReader:
        """The live payloads of all tables in the order of the log, as they are now. `wanted`: which tables."""
        with self._writer.locked:
            places = region_places(self._writer.meta, wanted)
        return EntryReader(self._log, self.topics, places, batch=batch)

    def sequence_num(self, table: int) -> int:
        """The last sequence that a table has durably; 0 for an unknown one."""
        checked_id(table, "table")
        with self._writer.locked:
            known = self._writer.meta.tables.get(table)
            return 0 if known is None else known.next - 1

    # -- housekeeping -------------------------------------------------------------------------------------------

    async def snapshot(self) -> StoredSnapshot:
        """Store the state as it is now, so that a restart reads only what comes behind it."""
        async with self._storing:
            return await asyncio.to_thread(self._snapshot)

    async def clean(self) -> Cleaned:
        """Remove what no table needs from the log's beginning.

        1. Store a snapshot, twice where the one before it lies below the cut: two that can be recovered from stay. 2. Then truncate.
        """
        async with self._storing:
            return await asyncio.to_thread(self._clean)

    def _snapshot(self) -> StoredSnapshot:
        with self._writer.locked:  # for as long as a copy takes: every write waits for it
            meta = self._writer.meta.copied()
        return self._snapshots.store(encode_snapshot(meta, self._snapshots.chunk), meta.watermark)

    def _clean(self) -> Cleaned:
        with self._writer.locked:
            cut = self._writer.meta.safe_offset
        before = self._log.bounds(self.topics.data, 0).start
        self._snapshot()
        if cut <= before:
            return Cleaned(before, 0)
        while len(self._snapshots.stored) < 2 or self._snapshots.stored[-2].watermark < cut:
            self._snapshot()
        if cut == self._log.bounds(self.topics.data, 0).end and self._log.engine == "embedded":
            self._owned.writer.roll()  # only closed segments can be removed
        start = self._owned.writer.delete_before(cut)
        return Cleaned(start, start - before)

    async def close(self) -> None:
        """Finish the calls under way, and let another process own the region. Closing twice is no error."""
        await self._writer.aclose()
        await asyncio.to_thread(self._owned.release)

    async def close_gracefully(self) -> None:
        """`close` with a last snapshot, so that the next opening reads nothing but that."""
        await self._writer.aclose()
        try:
            await self.snapshot()
        finally:
            await self.close()

    def _known(self, table: int) -> Numbers:
        numbers = self._writer.tables.get(table)
        if numbers is None:
            raise UnknownTable(f"Region {self.topics} has no table {table}.", hint=f"List them with `headwater wal tables {self.topics}`.")
        return numbers

    def _gate(self, table: int) -> asyncio.Lock:
        return self._gates.setdefault(table, asyncio.Lock())


def create_region(log: Log, topics: RegionTopics, settings: TopicSettings | None = None) -> bool:
    """Create a region's topics; return whether it is new. Blocking. Errors: `AlreadyExists` where it is there with other settings."""
    try:
        log.topic(topics.data)
        new = False
    except UnknownTopic:
        new = True
    for topic in (topics.meta, topics.data):  # the data topic last: with it the region is there
        log.create_topic(topic, settings=settings, part=PART)
    return new


async def open_region(log: Log, ownership: Ownership, topics: RegionTopics, *, take_over: bool = False) -> Region:
    """Own a region and recover its state.

    Errors: `RegionNotFound`; `NotOwner` while another process owns it, unless `take_over`; `MetaLost`, `Damaged`.
    """
    owned, snapshots, recovered = await asyncio.to_thread(_opened, log, ownership, topics, take_over)
    return Region(log, topics, owned=owned, snapshots=snapshots, recovered=recovered)


def _opened(log: Log, ownership: Ownership, topics: RegionTopics, take_over: bool) -> tuple[OwnedPartition, SnapshotStore, Recovered]:
    """1. Own the data topic: a former owner cannot truncate it any more. 2. Claim the meta topic: all snapshots that count are there.
    3. Recover, from a state that nobody else changes."""
    try:
        owned = ownership.own(topics.data, 0, take_over=take_over, part=PART)
    except UnknownTopic:
        raise RegionNotFound(
            f"There is no region {topics}.",
            hint=f"Create it with `headwater wal create {topics}`, or list regions with `headwater wal regions`.",
        ) from None
    try:
        writer = log.claim(topics.meta, 0, part=PART)
        recovered = recover(log, topics)
        return owned, SnapshotStore(log, writer, topics, recovered.snapshots), recovered
    except BaseException:
        owned.release()
        raise


async def _within(seconds: float, future: asyncio.Future[int], what: str) -> int:
    done, _ = await asyncio.wait({future}, timeout=seconds)
    if not done:
        future.add_done_callback(lambda late: late.cancelled() or late.exception())  # nobody else looks at it
        raise Timeout(
            f"{what} are not durable after {seconds:g} s.", hint="They may become so later: read the table before writing them again."
        )
    return future.result()
