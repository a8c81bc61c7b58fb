"""One segment, mapped for reading: finds records by the sidecar, checks their batches, and gives their positions."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from google_crc32c import value as crc32c

from headwater.core.errors import Damaged
from headwater.log.embedded import batches
from headwater.log.embedded.fields import Column, gather
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.segment_lock import open_shared
from headwater.log.layout import BEFORE_MESSAGE, HEAD, LAST, SMALLEST, TRAILER, U32

_CHUNK = 4096
_FEW = 16  # up to this many records, plain steps cost less than arrays
_AHEAD = 256  # and this many behind them are passed on the way to the end of their batch
_FEW_BYTES = 1 << 20


class RecordSlice(NamedTuple):
    """Checked records: they begin at `starts` in `data`, of which only the first `size` bytes may be touched."""

    data: mmap.mmap
    size: int
    starts: Column
    heads: Column | None = None  # their fields, where they have been gathered already


class SegmentView:
    """A segment opened for reading. Not safe for several threads at once: its reader holds a lock around it.

    Every batch is checked before any of its records is given out. The last stretch that was checked is remembered, so that reading on in
    small steps through a large batch checks it once.
    """

    def __init__(self, folder: Path, segment: Segment, *, hint: str) -> None:
        self.segment = segment
        self.path = segment.log(folder)
        self._hint = hint
        self._sidecar = segment.pos(folder)
        self._fd = open_shared(self.path)  # FileNotFoundError: the reader looks at the manifest again
        self._pos_fd = -1
        self._data: mmap.mmap | None = None
        self._mapped = 0
        self._checked = (0, 0)
        self._walked: Column = np.empty(0, np.int64)
        self._walked_to = 0
        self._sparse: tuple[Column, Column, int] | None = (
            None  # in a segment with holes: where records begin, their offsets, where they end
        )
        self.latest: tuple[int, int] | None = None  # the highest timestamp below an offset, as far as somebody has asked

    def close(self) -> None:
        self._close_file()
        self._close_sidecar()
        self._data = None  # not closed: Arrow columns may still point into it

    def slice(self, start: int, end: int, limit: int, count: int) -> RecordSlice:
        """Up to `count` records with offsets of [start, end), from the first `limit` bytes, which are durable.

        Fewer than asked for are given when damage follows; `Damaged` is raised when it comes first. None are given only where checked
        bytes show that there are none.
        """
        data = self._map(limit)
        if not self.segment.dense:
            return RecordSlice(data, limit, self._with_holes(data, limit, start, end, count))
        first = max(start, self.segment.base) - self.segment.base
        count = min(count, end - self.segment.base - first)
        if 0 < count <= _FEW and (few := self._few(data, limit, first, count)) is not None:
            return RecordSlice(data, limit, few)
        starts, stop, head = self._rows(data, limit, first, count)
        if not len(starts):
            if count > 0:
                raise self._damaged(self._walked_to, "no record begins there")
            return RecordSlice(data, limit, starts)
        good = self._intact(data, limit, first, starts, stop, head)
        return RecordSlice(data, limit, good, None if head is None else head[: len(good)])

    def _with_holes(self, data: mmap.mmap, limit: int, start: int, end: int, count: int) -> Column:
        """`slice` for a segment with holes. Only the records themselves say which offsets are there, so their neighbours are checked, too:
        a damaged one may have stood inside the range.
        """
        rows, offsets, stop = self._all(data, limit)
        first, last = (int(i) for i in np.searchsorted(offsets, [start, end]))
        if first == last:
            if last == len(rows) and stop != limit:
                raise self._damaged(stop, "no record begins there")
            low, high = max(first - 1, 0), min(last + 1, len(rows))
        else:
            high = last = min(last, first + count)
            low = first if offsets[first] == start else max(first - 1, 0)
        if low == high:
            return rows[low:high]
        good = len(self._intact(data, limit, low, rows[low:high], self._end_of(data, rows[low:high])))
        if good < (first - low + 1 if first < last else high - low):
            raise self._damaged(self._checked[1], "the checksum of its batch is wrong")
        return rows[first : min(last, low + good)]

    def _few(self, data: mmap.mmap, limit: int, first: int, count: int) -> Column | None:
        """`slice` for a few records, a fifth of its cost: one by one, without arrays. None wherever anything is not plain and right."""
        row = self._sidecar_row(first)
        if row < 0 or row + SMALLEST > limit or not self._follows(data, first, row):
            return None
        starts, at, offset, batch_begin = [], row, self.segment.base + first, -1
        for number in range(count + _AHEAD):
            if at + SMALLEST > limit:
                return None
            stored, message, _, mode, _ = HEAD.unpack_from(data, at)
            end = at + BEFORE_MESSAGE + message
            if stored != offset + number or end > limit:
                return None
            if number < count:
                starts.append(at)
            at = end
            if number + 1 >= count and row >= self._checked[0] and end <= self._checked[1]:
                return np.array(starts, np.int64)
            if mode & LAST:
                _, length, crc = TRAILER.unpack_from(data, end - TRAILER.size)
                begin = end - length
                if begin != batch_begin if batch_begin >= 0 else not 0 <= begin <= row:
                    return None
                if length > _FEW_BYTES or crc32c(data[begin : end - 4]) != crc:
                    return None
                if number + 1 >= count:
                    return np.array(starts, np.int64)
                batch_begin = end
        return None

    # -- where records begin --------------------------------------------------------------------------------

    def _map(self, limit: int) -> mmap.mmap:
        if self._data is None or self._mapped < limit:
            size = os.fstat(self._fd).st_size
            if size < limit:
                raise self._damaged(size, f"the file ends there, {limit - size} bytes short")
            # Not beyond the durable bytes: what lies there may be cut off at any moment, and whoever touched it then would die of SIGBUS.
            self._data, self._mapped = mmap.mmap(self._fd, limit, prot=mmap.PROT_READ), limit
            if limit == self.segment.length:  # closed: it is mapped once and for all, and the map has a descriptor of its own
                self._close_file()
        return self._data

    def _close_file(self) -> None:
        """Forget the number first: closed twice, after Ctrl-C in between, it would be another thread's file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _close_sidecar(self) -> None:
        fd, self._pos_fd = self._pos_fd, -1
        if fd >= 0:
            os.close(fd)

    def _sidecar_bytes(self, first: int, count: int) -> bytes:
        try:
            if self._pos_fd < 0:
                self._pos_fd = os.open(self._sidecar, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._pos_fd, count * 4, first * 4)
        except OSError:  # a sidecar can be lost
            return b""

    def _sidecar_row(self, number: int) -> int:
        """Where the sidecar says that one record begins; -1 when it does not."""
        raw = self._sidecar_bytes(number, 1)
        return int.from_bytes(raw, "little") if len(raw) == 4 else -1

    def _follows(self, data: mmap.mmap, number: int, row: int) -> bool:
        """Whether the record before the one of this number ends at `row`: a wrong sidecar may point into a value that looks like it."""
        if number == 0:
            return row == 0
        before = self._sidecar_row(number - 1)
        if not 0 <= before <= row - SMALLEST:
            return False
        offset, message, _, _, _ = HEAD.unpack_from(data, before)
        return bool(offset == self.segment.base + number - 1 and before + BEFORE_MESSAGE + message == row)

    def _sidecar_rows(self, first: int, count: int) -> Column:
        raw = self._sidecar_bytes(first, count)
        return np.frombuffer(raw[: len(raw) // 4 * 4], "<u4").astype(np.int64)

    def _rows(self, data: mmap.mmap, limit: int, first: int, count: int) -> tuple[Column, int, Column | None]:
        """Where up to `count` of the dense segment's records begin, from its `first` on, where the last of them ends, and their fields."""
        rows = self._sidecar_rows(first, count)
        if len(rows) and limit - int(rows[0]) >= SMALLEST and self._follows(data, first, int(rows[0])):
            starts, stop, head = batches.prove_heads(data, rows, int(rows[0]), limit, self.segment.base + first)
            if len(starts):
                return starts, stop, head
        if self._walked_to < limit:  # the sidecar is missing or stale: go by the bytes
            more, self._walked_to = batches.walk(data, self._walked_to, limit, self.segment.base + len(self._walked))
            self._walked = np.append(self._walked, np.array(more, np.int64))
        starts = self._walked[first : first + count]
        return starts, self._end_of(data, starts), None

    def _all(self, data: mmap.mmap, limit: int) -> tuple[Column, Column, int]:
        """Every record of a closed segment with holes: where it begins, its offset; and where they end, in damage before `limit`."""
        if self._sparse is None:
            rows = self._sidecar_rows(0, limit // SMALLEST + 1)
            starts, stop = batches.prove(data, rows, 0, limit, self.segment.base, dense=False)
            if stop != limit:
                walked, stop = batches.walk(data, 0, limit, self.segment.base, dense=False)
                starts = np.array(walked, np.int64)
            offsets = gather(data, limit, ">u8", starts).astype(np.int64)
            if len(starts) and int(offsets[-1]) >= self.segment.end:  # another segment's records: beyond its end there are none
                inside = int(np.searchsorted(offsets, self.segment.end))
                starts, offsets, stop = starts[:inside], offsets[:inside], int(starts[inside])
            self._sparse = starts, offsets, stop
        return self._sparse

    @staticmethod
    def _end_of(data: mmap.mmap, starts: Column) -> int:
        """Where the last of the records ends."""
        if not len(starts):
            return 0
        last = int(starts[-1])
        return last + BEFORE_MESSAGE + int(U32.unpack_from(data, last + 8)[0])

    # -- checking -------------------------------------------------------------------------------------------

    def _intact(self, data: mmap.mmap, limit: int, first: int, starts: Column, stop: int, head: Column | None = None) -> Column:
        """The leading records whose batches are unharmed; at least one, or `Damaged`."""
        if self._checked[0] <= starts[0] and stop <= self._checked[1]:
            return starts
        rows, stop = self._to_batch_end(data, limit, first, starts, stop)
        ends = np.append(rows[1:], stop)
        if head is None:
            modes = gather(data, limit, "u1", rows + 20)
        else:
            modes = head["mode"].copy()
            if len(rows) > len(starts):
                modes = np.append(modes, gather(data, limit, "u1", rows[len(starts) :] + 20))
        lasts = np.flatnonzero(modes & LAST)
        begin = -1
        if len(lasts) and ends[lasts[0]] - rows[lasts[0]] >= SMALLEST + TRAILER.size:
            end = int(ends[lasts[0]])
            begin = end - int(U32.unpack_from(data, end - 8)[0])
        if not 0 <= begin <= rows[0]:
            raise self._damaged(int(rows[0]), "its batch has no end")
        intact = batches.check(data, limit, rows, stop, 0, begin=begin, modes=modes)
        good = starts[: intact.records]
        if not len(good):
            raise self._damaged(begin, "the checksum of its batch is wrong")
        a, b = self._checked
        self._checked = (min(a, begin), intact.position) if a <= begin <= b <= intact.position else (begin, intact.position)
        return good

    def _to_batch_end(self, data: mmap.mmap, limit: int, first: int, starts: Column, stop: int) -> tuple[Column, int]:
        """The records asked for and those behind them that belong to the last one's batch."""
        rows = starts
        while stop < limit and not data[int(rows[-1]) + 20] & LAST:
            if self.segment.dense:
                more, stop, _ = self._rows(data, limit, first + len(rows), _CHUNK)
            else:
                everything = self._all(data, limit)[0]
                more = everything[first + len(rows) : first + len(rows) + _CHUNK]
                stop = self._end_of(data, more)
            if not len(more):
                break
            ended = np.flatnonzero(gather(data, limit, "u1", more + 20) & LAST)
            if len(ended):
                more = more[: int(ended[0]) + 1]
                stop = self._end_of(data, more)
            rows = np.append(rows, more)
        return rows, stop

    def _damaged(self, position: int, what: str) -> Damaged:
        return Damaged(f"{self.path} is damaged at byte {position}: {what}.", hint=self._hint)
