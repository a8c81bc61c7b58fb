"""Finds the intact batches in the bytes of a segment. Does no I/O.

Three questions: where records begin (`walk` by the bytes, `prove` by the sidecar where its chain proves itself), how far the
batches are intact (`check`), and whether an intact batch behind some damage knew of a higher durable end (`later_end`).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from google_crc32c import value as crc32c

from headwater.log.embedded.fields import Column, gather, heads, wide_heads
from headwater.log.embedded.sums import GROUP, run_sums
from headwater.log.layout import BEFORE_MESSAGE, HEAD, LAST, NULL, SMALLEST, TRAILER, U32

_SMALLEST_BATCH = SMALLEST + TRAILER.size
_TRAILERS = np.dtype([("durable", ">u8"), ("length", ">u4"), ("crc", ">u4")])
_MANY = 64  # from this many records on, checking for one shape pays off
_WIDEST = 64  # the longest key, in bytes, that is gathered with the head
_RUN = 4096  # batches whose checksums are compared in one pass
_LEAST = 256  # the fewest batches for which that is faster than one by one
_SMALL = 4096  # bytes up to which a copy costs less than a view


class Intact(NamedTuple):
    """How far the batches of a slice are whole: up to `position`, after which `offset` would come next."""

    position: int
    offset: int
    durable: int  # the highest durable end that one of them carries
    records: int


def walk(data: mmap.mmap, at: int, size: int, offset: int, *, dense: bool = True) -> tuple[list[int], int]:
    """Where records begin from `at` on, by their own lengths and offsets; and where the last whole one ends."""
    starts: list[int] = []
    add, head, number = starts.append, HEAD.unpack_from, U32.unpack_from
    while at + SMALLEST <= size:
        stored, message, _, _, key_length = head(data, at)
        if key_length == NULL:
            key_length = 0
        end = at + BEFORE_MESSAGE + message
        if stored < offset or (dense and stored != offset) or end > size or message < 8 + key_length:
            break
        if number(data, at + 25 + key_length)[0] != message - 8 - key_length:
            break
        add(at)
        at, offset = end, stored + 1
    return starts, at


def prove(data: mmap.mmap, rows: Column, at: int, size: int, offset: int, *, dense: bool = True) -> tuple[Column, int]:
    """The leading part of sidecar `rows` that chains from `at` by the records' own lengths and offsets, and where it ends.

    Never trust a sidecar: after a power cut it may hold zeros. The result equals that of `walk`.
    """
    return prove_heads(data, rows, at, size, offset, dense=dense)[:2]


def prove_heads(data: mmap.mmap, rows: Column, at: int, size: int, offset: int, *, dense: bool = True) -> tuple[Column, int, Column | None]:
    """`prove`, and the fields of the records that it has looked at, so that nobody has to gather them again."""
    rows = rows.astype(np.int64, copy=False)
    if not len(rows) or rows[0] != at:
        return rows[:0], at, None
    if dense and len(rows) >= _MANY and (head := _of_one_shape(data, rows, size, offset)) is not None:
        return rows, int(rows[-1]) + BEFORE_MESSAGE + int(head["message"][-1]), head
    inside = (rows >= at) & (rows + SMALLEST <= size)
    rows = rows[: len(rows) if inside.all() else int(np.argmin(inside))]
    if not len(rows):
        return rows, at, None
    head = heads(data, size, rows)
    offsets = head["offset"].astype(np.int64)
    message = head["message"].astype(np.int64)
    key_length = head["key"].astype(np.int64)
    key_length[key_length == NULL] = 0
    ends = rows + BEFORE_MESSAGE + message
    data_at = np.minimum(rows + 25 + key_length, size - 4)
    good = (ends <= size) & (message >= 8 + key_length) & (gather(data, size, ">u4", data_at) == message - 8 - key_length)
    good[1:] &= ends[:-1] == rows[1:]
    if dense:
        good &= offsets == np.arange(offset, offset + len(rows))
    else:
        good &= offsets >= offset
        good[1:] &= offsets[1:] > offsets[:-1]
    count = len(rows) if good.all() else int(np.argmin(good))
    return rows[:count], int(ends[count - 1]) if count else at, head[:count]


def _of_one_shape(data: mmap.mmap, rows: Column, size: int, offset: int) -> Column | None:
    """The fields of records that all chain and whose keys have one length, which is the rule; None where that is not so."""
    at = int(rows[0])
    if not 0 <= at <= size - SMALLEST:
        return None
    width = int(U32.unpack_from(data, at + 21)[0])
    head = wide_heads(data, size, rows, width) if width <= _WIDEST else None
    if head is None:
        return None
    message = head["message"].astype(np.int64)
    ends = rows + message
    ends += BEFORE_MESSAGE
    chained = int(ends[-1]) <= size and bool((ends[:-1] == rows[1:]).all())
    if not chained or not bool((head["key"] == width).all()) or not bool((head["size"] + np.int64(8 + width) == message).all()):
        return None
    return head if bool((head["offset"] == np.arange(offset, offset + len(rows), dtype=np.uint64)).all()) else None


def check(
    data: mmap.mmap, size: int, starts: Column, end: int, offset: int, *, begin: int | None = None, modes: Column | None = None
) -> Intact:
    """How far the records that begin at `starts` (chained, the last ending at `end`) form whole batches with right checksums.

    `begin` is where the first batch begins, when that is before the first of the records. `modes`: their mode bytes, where known.
    """
    if not len(starts):
        return Intact(end, offset, 0, 0)
    begin = int(starts[0]) if begin is None else begin
    ends = np.append(starts[1:], end)
    lasts = np.flatnonzero((gather(data, size, "u1", starts + 20) if modes is None else modes) & LAST)
    if not len(lasts) or int((ends - starts)[lasts].min()) < _SMALLEST_BATCH:
        lasts = lasts[: int(np.argmax((ends - starts)[lasts] < _SMALLEST_BATCH))] if len(lasts) else lasts
        if not len(lasts):
            return Intact(begin, offset, 0, 0)
    batch_ends = ends[lasts]
    batch_begins = np.append(begin, batch_ends[:-1])
    trailers = gather(data, size, f"V{TRAILER.size}", batch_ends - TRAILER.size).view(_TRAILERS)
    carried, sums = trailers["durable"], trailers["crc"].astype(np.uint32)
    fits = trailers["length"] == batch_ends - batch_begins
    good = len(lasts) if fits.all() else int(np.argmin(fits))
    good = _right(data, batch_begins[:good], batch_ends[:good], sums[:good])
    if not good:
        return Intact(begin, offset, 0, 0)
    last = int(lasts[good - 1])
    following = int(gather(data, size, ">u8", starts[last : last + 1])[0]) + 1
    return Intact(int(batch_ends[good - 1]), following, int(carried[:good].max()), last + 1)


def _right(data: mmap.mmap, begins: Column, ends: Column, sums: Column) -> int:
    """How many leading batches, one behind the other, have the checksum that they carry."""
    lengths = ends - begins
    changes = np.flatnonzero(lengths[1:] != lengths[:-1]) + 1
    runs = np.concatenate(([0], changes, [len(lengths)]))
    done = 0
    for number in np.flatnonzero(np.diff(runs) >= _LEAST):
        first, last = int(runs[number]), int(runs[number + 1])
        if lengths[first] >= _SMALL:
            continue
        last -= (last - first) % GROUP
        if (wrong := _one_by_one(data, begins[done:first], ends[done:first], sums[done:first])) >= 0:
            return done + wrong
        if (wrong := _at_once(data, begins[first:last], ends[first:last], sums[first:last])) >= 0:
            return first + wrong
        done = last
    wrong = _one_by_one(data, begins[done:], ends[done:], sums[done:])
    return len(lengths) if wrong < 0 else done + wrong


def _at_once(data: mmap.mmap, begins: Column, ends: Column, sums: Column) -> int:
    """Which of many batches of one length is the first with a wrong checksum, or -1: in one pass, and one by one where that differs."""
    run, view = run_sums(int(ends[0] - begins[0])), np.frombuffer(data, np.uint8)
    for a in range(0, len(begins), _RUN):
        b = min(a + _RUN, len(begins))
        if run.expected(sums[a:b]) != crc32c(view[int(begins[a]) : int(ends[b - 1])]):
            wrong = _one_by_one(data, begins[a:b], ends[a:b], sums[a:b])
            if wrong >= 0:
                return a + wrong
    return -1


def _one_by_one(data: mmap.mmap, begins: Column, ends: Column, sums: Column) -> int:
    """Which batch is the first with a wrong checksum, or -1."""
    view: Column = np.frombuffer(data, np.uint8)
    for i, (a, b, carried) in enumerate(zip(begins.tolist(), (ends - 4).tolist(), sums.tolist(), strict=True)):
        if crc32c(data[a:b] if b - a < _SMALL else view[a:b]) != carried:
            return i
    return -1


def _candidates(data: mmap.mmap, at: int, size: int, offset: int) -> Iterator[tuple[int, int, int, int]]:
    """Last records anywhere behind `at`, by their own header and a plausible offset: where the batch ends, its length, carried end, crc."""
    step, stop = 1 << 22, size - _SMALLEST_BATCH + 1
    most = offset + (size - at) // SMALLEST + 1
    for a in range(at, stop, step):
        b = min(a + step, stop)
        offsets: Column = np.ndarray((b - a,), ">u8", data, a, (1,))
        modes: Column = np.ndarray((b - a,), "u1", data, a + 20, (1,))
        for i in np.flatnonzero((modes & LAST > 0) & (offsets >= offset) & (offsets < most)):
            _, message, _, _, _ = HEAD.unpack_from(data, a + int(i))
            end = a + int(i) + BEFORE_MESSAGE + message
            if end <= size and message >= 8 + TRAILER.size:
                durable, length, crc = TRAILER.unpack_from(data, end - TRAILER.size)
                if _SMALLEST_BATCH <= length <= end - at:
                    yield end, length, durable, crc


def later_end(data: mmap.mmap, at: int, size: int, offset: int) -> int:
    """The highest durable end carried by an intact batch anywhere behind `at`.

    Without it, a power cut after bit rot would look like a torn tail and silently drop acknowledged records.
    """
    best = 0
    for end, length, durable, crc in _candidates(data, at, size, offset):
        if durable > best and crc32c(data[end - length : end - 4]) == crc:
            best = durable
    return best


def next_batch(data: mmap.mmap, at: int, size: int, offset: int) -> int:
    """Where the first intact batch from `at` on begins, or -1."""
    for end, length, _, crc in _candidates(data, at, size, offset):
        if crc32c(data[end - length : end - 4]) == crc:
            return end - length
    return -1
