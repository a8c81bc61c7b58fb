"""Reads records at given offsets: finds each by the sidecar, checks its batch, and remembers large checked batches."""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from google_crc32c import value as crc32c

from headwater.core.errors import BadBounds, Damaged
from headwater.log.embedded.fields import Column, gather
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import SegmentPosition
from headwater.log.embedded.view import SegmentView
from headwater.log.layout import BEFORE_MESSAGE, HEAD, LAST, SMALLEST, TRAILER, U32, U64, decode
from headwater.log.record import Record, ascending

_VIEWS = 8  # a descriptor each, and two more for the active segment's
_SMALL = 4096  # bytes of a batch that are checked each time: remembering costs as much
_NEAR = 16  # records that are passed one by one on the way to the end of their batch
_REMEMBERED = 1 << 18  # batches, 16 bytes each: of segments of the usual size, at least four

_ROWS = struct.Struct("<II")  # of the sidecar

Extent = Callable[[Segment, int, SegmentPosition], tuple[int, int]]


class CheckedBatches:
    """Which batches of a segment had the right checksum when they were read, by where they begin and end."""

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        self._begins, self._ends = array("Q"), array("Q")

    def __len__(self) -> int:
        return len(self._begins)

    def end(self, position: int) -> int:
        """Where the checked batch that holds this byte ends; 0 where there is none."""
        at = bisect_right(self._begins, position)
        return end if at and (end := self._ends[at - 1]) > position else 0

    def add(self, begin: int, end: int) -> None:
        at = bisect_right(self._begins, begin)
        self._begins.insert(at, begin)
        self._ends.insert(at, end)


class PointView(SegmentView):
    """A segment opened for reads of single records.

    A record is given out only if the checksum of its whole batch is right. Small batches are checked each time; a larger one is checked
    when it is met first, and remembered: durable bytes never change. Whatever is not plain and right goes the way of `slice`, which says
    what is damaged.
    """

    def __init__(self, folder: Path, segment: Segment, checked: CheckedBatches, *, hint: str) -> None:
        super().__init__(folder, segment, hint=hint)
        self._batches = checked
        self._known = 0  # offsets below this are mapped

    def records(self, offsets: Sequence[int], limit: int, high: int) -> list[Record | None]:
        """The records at ascending offsets of this segment, None where there is none. `limit` and `high`: its durable bytes and its end."""
        if mapped := offsets[-1] < self._known:
            limit = self._mapped  # mapping it again, because it has grown, would cost more than the reading
        data = self._map(limit)
        if not mapped:
            self._known = high
        if self.segment.dense:
            return [self._dense(data, limit, offset, *rows) for offset, rows in zip(offsets, self._places(offsets), strict=True)]
        return self._sparse_records(data, limit, offsets)

    def rest(self) -> None:
        """Let go of the sidecar's descriptor, if the segment is closed."""
        if self.segment.closed:
            self._close_sidecar()

    def _places(self, offsets: Sequence[int]) -> list[tuple[int, int]]:
        """Where the sidecar says that the record before each begins, and itself: any numbers, where it does not have them."""
        first = self.segment.base + 1
        self._sidecar_row(0)  # opens the sidecar
        fd, pread, number, size = self._pos_fd, os.pread, _ROWS.unpack, _ROWS.size
        try:
            return [
                number(pread(fd, size, (offset - first) * 4).ljust(size, b"\0")) if offset >= first else (0, self._sidecar_row(0))
                for offset in offsets
            ]
        except OSError:  # a sidecar can be lost
            return [(0, 0)] * len(offsets)

    def _dense(self, data: mmap.mmap, limit: int, offset: int, before: int, row: int) -> Record | None:
        """The sidecar is not believed: what it says is right only if the record before ends where this one begins. Bytes that look like a
        record may stand inside of a value."""
        if 0 <= before <= row <= limit - SMALLEST:
            if offset == self.segment.base:
                chained = row == 0
            else:
                stored, message, _, _, _ = HEAD.unpack_from(data, before)
                chained = stored == offset - 1 and before + BEFORE_MESSAGE + message == row
            stored, message, _, mode, _ = HEAD.unpack_from(data, row)
            end = row + BEFORE_MESSAGE + message
            if chained and stored == offset and end <= limit and self._whole(data, limit, offset, row, end, mode):
                return decode(data, row)
        return self._slowly(data, limit, offset)

    def _whole(self, data: mmap.mmap, limit: int, offset: int, row: int, end: int, mode: int) -> bool:
        """Whether the record at `row`, which ends at `end`, belongs to a batch whose checksum is right."""
        if checked := self._batches.end(row):
            # The next record has to begin where this one ends, with the next offset.
            return mode & LAST > 0 if end == checked else end + SMALLEST <= checked and U64.unpack_from(data, end)[0] == offset + 1
        last, number = row, offset
        for _ in range(_NEAR):
            if mode & LAST:
                return self._check(data, row, last, end)
            if end + SMALLEST > limit:
                return False
            last, number = end, number + 1
            stored, message, _, mode, _ = HEAD.unpack_from(data, last)
            end = last + BEFORE_MESSAGE + message
            if stored != number or end > limit:
                return False
        first = number - self.segment.base
        last = self._last_of_batch(data, limit, lambda at, count: self._sidecar_rows(first + at, count))
        return last >= 0 and self._check(data, row, last, last + BEFORE_MESSAGE + int(U32.unpack_from(data, last + 8)[0]), limit)

    def _check(self, data: mmap.mmap, row: int, last: int, end: int, limit: int | None = None) -> bool:
        """Check the batch of the record at `row`, whose last record is said to be at `last` and to end at `end`."""
        if end - last < SMALLEST + TRAILER.size or (limit is not None and end > limit):
            return False
        _, length, crc = TRAILER.unpack_from(data, end - TRAILER.size)
        begin = end - length
        if not 0 <= begin <= row:
            return False
        if length <= _SMALL:
            return bool(crc32c(data[begin : end - 4]) == crc)
        if crc32c(np.frombuffer(data, np.uint8, length - 4, begin)) != crc:
            return False
        self._batches.add(begin, end)
        return True

    @staticmethod
    def _last_of_batch(data: mmap.mmap, limit: int, rows: Callable[[int, int], Column]) -> int:
        """Where the first record with a trailer begins, among those whose places `rows` tells; -1 where it tells of none."""
        at, count = 0, 64
        while len(some := rows(at, count)):
            if int(some.min()) < 0 or int(some.max()) > limit - SMALLEST:
                some = some[: int(np.argmax((some < 0) | (some > limit - SMALLEST)))]
            lasts = np.flatnonzero(gather(data, limit, "u1", some + 20) & LAST)
            if len(lasts):
                return int(some[lasts[0]])
            if len(some) < count:
                return -1
            at, count = at + count, min(count * 4, 1 << 16)
        return -1

    def _sparse_records(self, data: mmap.mmap, limit: int, offsets: Sequence[int]) -> list[Record | None]:
        """For a segment with holes, where only the records themselves say which offsets are there."""
        rows, there, _ = self._all(data, limit)
        records: list[Record | None] = []
        for offset, at in zip(offsets, np.searchsorted(there, offsets).tolist(), strict=True):
            if at < len(rows) and int(there[at]) == offset and self._whole_at(data, limit, rows, at):
                records.append(decode(data, int(rows[at])))
            elif 0 < at < len(rows) and self._whole_at(data, limit, rows, at - 1) and self._whole_at(data, limit, rows, at):
                # A hole: the records beside it are right, so that no damaged one has stood in it. Where the record is there, but its
                # batch is not right, the second of these is not true.
                records.append(None)
            else:
                records.append(self._slowly(data, limit, offset))
        return records

    def _whole_at(self, data: mmap.mmap, limit: int, rows: Column, at: int) -> bool:
        """Whether the record in this row belongs to a batch whose checksum is right."""
        row = int(rows[at])
        if self._batches.end(row):
            return True
        last = self._last_of_batch(data, limit, lambda first, count: rows[at + first : at + first + count])
        return last >= 0 and self._check(data, row, last, last + BEFORE_MESSAGE + int(U32.unpack_from(data, last + 8)[0]), limit)

    def _slowly(self, data: mmap.mmap, limit: int, offset: int) -> Record | None:
        """Read the record with full checks, which report the damage. Errors: `Damaged`."""
        rows = self.slice(offset, offset + 1, limit, 1)
        return decode(data, int(rows.starts[0])) if len(rows.starts) else None


class ScatteredReads:
    """The segments that are open for reads by offset, and what has been checked of them. Its reader locks around it."""

    def __init__(self, folder: Path, *, name: str, hint: str, extent: Extent) -> None:
        self._folder, self._name, self._hint, self._extent = folder, name, hint, extent
        self._views: dict[str, PointView] = {}
        self._checked: dict[str, CheckedBatches] = {}

    def read(self, manifest: Manifest | None, durable: int, place: SegmentPosition, offsets: Sequence[int]) -> list[Record | None]:
        """As `Log.read_at`, by a manifest and the durable end that belong together. Errors: also `FileNotFoundError`."""
        wanted = ascending(offsets)
        if wanted and not 0 <= wanted[0] <= wanted[-1] < durable:
            beyond = wanted[0] if wanted[0] < 0 else wanted[-1]
            raise BadBounds(
                f"{self._name} ends at offset {durable}; {beyond} is not in it.", hint=f"Ask for offsets from 0 to {durable - 1}."
            )
        records: dict[int, Record | None] = {}
        used: list[PointView] = []
        at = bisect_right(wanted, manifest.start - 1) if manifest else 0
        for segment in manifest.segments_from(wanted[at]) if manifest and at < len(wanted) else ():
            if at == len(wanted):
                break
            high, limit = self._extent(segment, durable, place)
            first, at = bisect_right(wanted, segment.base - 1, at), bisect_right(wanted, high - 1, at)
            if first < at and limit:
                view = self._view(segment)
                used.append(view)
                records.update(zip(wanted[first:at], view.records(wanted[first:at], limit, high), strict=True))
            elif first < at and segment.dense:
                raise Damaged(f"{segment.log(self._folder)} is damaged at byte 0: no record begins there.", hint=self._hint)
        for view in used:
            view.rest()
        if sum(map(len, self._checked.values())) > _REMEMBERED:
            self._checked.clear()
            self.keep(set())
        return [records.get(offset) for offset in offsets]

    def keep(self, stems: set[str]) -> None:
        """Let go of every segment but these."""
        for stem in [stem for stem in self._views if stem not in stems]:
            self._views.pop(stem).close()
        self._checked = {stem: checked for stem, checked in self._checked.items() if stem in stems}

    def _view(self, segment: Segment) -> PointView:
        view = self._views.pop(segment.stem, None)
        if view is None or view.segment.closed != segment.closed:
            if view is not None:
                view.close()
            view = PointView(self._folder, segment, self._checked.setdefault(segment.stem, CheckedBatches()), hint=self._hint)
        self._views[segment.stem] = view  # the most recently used comes last
        while len(self._views) > _VIEWS:
            self._views.pop(next(iter(self._views))).close()
        return view
