"""Reads payloads by their places in the log, in batches: of one table, or of a whole region in the order of the log.

What is read is decided when reading begins. Payloads that are written later are not seen. Payloads that a clean has removed meanwhile
are `OffsetGone`: a reader never ends early without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from headwater.core.errors import BadBounds, BadInput, Damaged, HeadwaterError, OffsetGone, RegionNotFound, UnknownTopic
from headwater.log import Log, Record
from headwater.wal.bounds import SequenceRange
from headwater.wal.layout import MalformedRecord, decode_key, decode_payloads
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics
from headwater.wal.table_meta import TableMeta

BATCH = 500
_MOST = 64 << 20  # bytes of payloads after which a batch ends early, so that large payloads do not fill the memory
_FEW = 16  # records that are read before their size is known
_KEPT = 2 << 20  # bytes of a record with many payloads that is kept from one part to the next: a stream that stands keeps no more
_MANY = 4 * BATCH  # payloads of a record that is kept whatever its size: it would be decoded for each of many batches
Wanted = Callable[[int], bool]
LatePlaces = Callable[[], "EntryPlaces"]


class LogEntry(msgspec.Struct, frozen=True):
    """One payload of a table."""

    table: int
    sequence: int
    offset: int
    payload: bytes


class EntryPlaces(msgspec.Struct, frozen=True):
    """Where payloads lie, in the order in which they are given: three columns.

    `generation`: of the topic that the offsets are of. Where it is known, they are read in no other topic of that name.
    """

    tables: np.ndarray
    sequences: np.ndarray
    offsets: np.ndarray
    generation: str = ""

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, begin: int, end: int) -> EntryPlaces:
        """Those from the place `begin` up to, not including, `end`."""
        return EntryPlaces(self.tables[begin:end], self.sequences[begin:end], self.offsets[begin:end], self.generation)


class PlacedEntry(NamedTuple):
    """One payload, and the time of its record."""

    entry: LogEntry
    timestamp: int | None


def table_places(meta: RegionMeta, table: int, wanted: SequenceRange) -> EntryPlaces:
    """The live payloads of a table, by sequence."""
    return _places_of(meta.tables.get(table), table, wanted, meta.generation)


def late_table_places(meta: RegionMeta, table: int, wanted: SequenceRange) -> LatePlaces:
    """`table_places` of the state as it is now, to be called later, whoever changes the state meanwhile."""
    known, generation = meta.tables.get(table), meta.generation
    copy = None if known is None else known.copied()
    return lambda: _places_of(copy, table, wanted, generation)


def late_region_places(meta: RegionMeta, wanted: Wanted | None = None) -> LatePlaces:
    """`region_places` of the state as it is now, to be called later: it takes a second for a million payloads."""
    copy = meta.copied()
    return lambda: region_places(copy, wanted)


def _places_of(known: TableMeta | None, table: int, wanted: SequenceRange, generation: str) -> EntryPlaces:
    offsets = known.column_of(wanted.first, wanted.last) if known is not None else np.zeros(0, np.int64)
    first = max(wanted.first, known.marked) if known is not None else 0
    sequences = np.arange(len(offsets), dtype=np.uint64) + np.uint64(first)
    return EntryPlaces(np.full(len(offsets), table, np.uint64), sequences, offsets, generation)


def sequence_places(meta: RegionMeta, table: int, sequences: Sequence[int]) -> EntryPlaces:
    """Live payloads of a table, each by its sequence, in the order in which they are given. Errors: `OffsetGone`."""
    known, offsets = meta.tables.get(table), list[int]()
    for sequence in sequences:
        offset = known.offsets(sequence, sequence) if known is not None else []
        if not offset:
            raise OffsetGone(f"Payload {sequence} of table {table} is not there.", hint="It was flushed, or its table dropped.")
        offsets += offset
    return EntryPlaces(np.full(len(offsets), table, np.uint64), np.array(sequences, np.uint64), np.array(offsets, np.int64))


def region_places(meta: RegionMeta, wanted: Wanted | None = None) -> EntryPlaces:
    """The live payloads of all tables in the order of the log; those of a table by sequence, also after a move.

    `wanted`: which tables. A payload that was moved behind later ones of its table is given before them, where they lie.
    """
    tables, sequences, offsets, order = [], [], [], []
    for number, table in meta.tables.items():
        if table.live and (wanted is None or wanted(number)):
            column = table.column()
            tables.append(np.full(len(column), number, np.uint64))
            sequences.append(np.arange(len(column), dtype=np.uint64) + np.uint64(table.marked))
            offsets.append(column)
            # The place of a payload in the order is that of the first later one that lies before it, where there is one.
            order.append(np.minimum.accumulate(column[::-1])[::-1])
    if not tables:
        return EntryPlaces(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
    by = np.lexsort((np.concatenate(sequences), np.concatenate(order)))
    return EntryPlaces(np.concatenate(tables)[by], np.concatenate(sequences)[by], np.concatenate(offsets)[by], meta.generation)


class EntryReader:
    """Gives the payloads at some places, batch by batch. An error stays an error on every later call."""

    def __init__(self, log: Log, topics: RegionTopics, places: EntryPlaces | LatePlaces, *, batch: int = BATCH, most: int = _MOST) -> None:
        """`places`: also as a call that gives them, which a thread makes. `most`: bytes of payloads after which a batch ends early."""
        if type(batch) is not int or batch < 1:
            raise BadInput(f"A batch of {batch!r} entries reads nothing.", hint="Give 1 or more.")
        self._given, self._batch, self._payloads = places, batch, PayloadReader(log, topics, most=most)
        self._places = places if isinstance(places, EntryPlaces) else None
        self._at = 0
        self._error: HeadwaterError | None = None

    @property
    def left(self) -> int:
        """How many entries are still to be read, once the first batch was."""
        return 0 if self._places is None else len(self._places) - self._at

    async def next_batch(self) -> list[LogEntry]:
        """Up to `batch` entries, fewer where they are large; empty at the end.

        Errors, which stay: `OffsetGone` where a clean has removed them; `Damaged`.
        """
        if self._error is not None:
            raise self._error
        if self._places is not None and not self.left:
            return []
        begin = self._at
        try:
            entries = await asyncio.to_thread(self._read, begin)
        except HeadwaterError as error:
            self._error = error
            raise
        self._at = begin + len(entries)
        return entries

    async def __aiter__(self) -> AsyncIterator[LogEntry]:
        while entries := await self.next_batch():
            for entry in entries:
                yield entry

    def _read(self, begin: int) -> list[LogEntry]:
        places = self._places
        if places is None:
            places = self._places = self._given if isinstance(self._given, EntryPlaces) else self._given()
        part = places.part(begin, min(begin + self._batch, len(places)))
        return [placed.entry for placed in self._payloads.read(part)] if len(part) else []


_Decoded = tuple[int, int, list[bytes], int | None]  # table, first sequence, payloads, time


class PayloadReader:
    """Reads payloads in parts that fit into the memory. Blocking."""

    def __init__(self, log: Log, topics: RegionTopics, *, most: int = _MOST) -> None:
        """`most`: bytes of payloads after which a part ends early."""
        self._log, self._topics, self._most, self._few = log, topics, most, _FEW
        self._last: tuple[int, _Decoded] | None = None  # the record in which the last part ended: the next one goes on in it

    def read(self, places: EntryPlaces) -> list[PlacedEntry]:
        """The payloads at these places, one or more, in their order; or the first of them, at least one, where they are large.

        Errors: `OffsetGone` where a clean has removed one of them, and where the region was deleted and created again; `RegionNotFound`
        where it was deleted; `Damaged`.
        """
        offsets = places.offsets.tolist()
        try:
            decoded = self._decoded(list(dict.fromkeys(offsets)))
            self._check_same(places.generation)
        except UnknownTopic:
            raise RegionNotFound(
                f"Region {self._topics} was deleted while it was read.", hint="`headwater wal regions` lists regions."
            ) from None
        except (BadBounds, Damaged, OffsetGone):
            self._check_same(places.generation)  # offsets of a topic that is no more: they say nothing of this one
            raise
        self._keep(decoded, offsets[-1])
        entries = []
        for table, sequence, offset in zip(places.tables.tolist(), places.sequences.tolist(), offsets, strict=True):
            if offset not in decoded:  # of the next part
                break
            of, first, payloads, timestamp = decoded[offset]
            if of != table or not first <= sequence < first + len(payloads):
                raise self._damaged(offset, f"it has no payload {sequence} of table {table}")
            entries.append(PlacedEntry(LogEntry(table, sequence, offset, payloads[sequence - first]), timestamp))
        return entries

    def _decoded(self, offsets: list[int]) -> dict[int, _Decoded]:
        """What the records at these offsets hold, or the first of them where they are large."""
        decoded: dict[int, _Decoded] = {}
        size, at = 0, 0
        last = self._last  # once: a thread whose caller has given up may go on beside this one
        if offsets and last is not None and last[0] == offsets[0]:
            decoded[offsets[0]], at = last[1], 1
        while at < len(offsets) and size < self._most:
            some = offsets[at : at + self._few]
            read = 0
            for offset, record in zip(some, self._log.read_at(self._topics.data, 0, some), strict=True):
                decoded[offset] = self._record(offset, record)
                read += len(record.value or b"") if record is not None else 0
            at, size = at + len(some), size + read
            self._few = min(BATCH, 4 * self._few) if read < self._most // 16 else max(1, self._few // 4)
        return decoded

    def _check_same(self, generation: str) -> None:
        """Errors: `OffsetGone` where the topic is another one than that of the places, whose offsets hold other payloads."""
        if generation and self._log.topic(self._topics.data).generation != generation:
            raise OffsetGone(f"Region {self._topics} was deleted and created again while it was read.", hint="Begin to read again.")

    def _keep(self, decoded: dict[int, _Decoded], last: int) -> None:
        """Without it, a record of 100 000 payloads would be read and decoded once for each batch of them. Large ones of few are let go."""
        self._last = None
        if last in decoded and len(payloads := decoded[last][2]) > 1 and (len(payloads) > _MANY or sum(map(len, payloads)) <= _KEPT):
            self._last = last, decoded[last]

    def _record(self, offset: int, record: Record | None) -> _Decoded:
        if record is None and offset >= self._log.bounds(self._topics.data, 0).start:  # nothing of ours removes it from there
            raise Damaged(
                f"Offset {offset} of {self._topics.data} is missing, as after a repair of the log.",
                hint="Read what lies before and behind it by bounds; once it is marked, nothing asks for it.",
            )
        if record is None:
            raise OffsetGone(
                f"Offset {offset} of {self._topics.data} was cleaned while it was read.",
                hint="Begin to read again: it was flushed, or moved.",
            )
        try:
            _, region, table, first = decode_key(record.key)
            if region != self._topics.region:
                raise MalformedRecord(f"it is of region {region}")
            return table, first, decode_payloads(record.value), record.timestamp
        except MalformedRecord as error:
            raise self._damaged(offset, str(error)) from error

    def _damaged(self, offset: int, why: str) -> Damaged:
        return Damaged(
            f"Record {offset} of {self._topics.data} cannot be read: {why}.",
            hint=f"See it with `headwater log show {self._topics.data} {offset}`.",
        )
