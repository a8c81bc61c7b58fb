"""Which bytes of a segment are whole, unharmed batches. Pure: works on mapped bytes.

Three questions: where records begin (`walk` by the bytes, `prove` by the sidecar where its chain proves itself), how far the
batches are intact (`check`), and whether an intact batch behind some damage knew of a higher durable end (`later_end`).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from google_crc32c import value as crc32c

from headwater.log.embedded.fields import Column, gather, heads
from headwater.log.layout import BEFORE_MESSAGE, HEAD, LAST, NULL, SMALLEST, TRAILER, U32

_SMALLEST_BATCH = SMALLEST + TRAILER.size


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
        found, message, _, _, key_length = head(data, at)
        if key_length == NULL:
            key_length = 0
        end = at + BEFORE_MESSAGE + message
        if found < offset or (dense and found != offset) or end > size or message < 8 + key_length:
            break
        if number(data, at + 25 + key_length)[0] != message - 8 - key_length:
            break
        add(at)
        at, offset = end, found + 1
    return starts, at


def prove(data: mmap.mmap, rows: Column, at: int, size: int, offset: int, *, dense: bool = True) -> tuple[Column, int]:
    """The leading part of sidecar `rows` that chains from `at` by the records' own lengths and offsets, and where it ends.

    A sidecar is never believed: after a power cut it may hold zeros. What this returns equals what `walk` would find.
    """
    rows = rows.astype(np.int64, copy=False)
    if not len(rows) or rows[0] != at:
        return rows[:0], at
    inside = (rows >= at) & (rows + SMALLEST <= size)
    rows = rows[: len(rows) if inside.all() else int(np.argmin(inside))]
    if not len(rows):
        return rows, at
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
    return rows[:count], int(ends[count - 1]) if count else at


def check(data: mmap.mmap, size: int, starts: Column, end: int, offset: int, *, begin: int | None = None) -> Intact:
    """How far the records that begin at `starts` (chained, the last ending at `end`) form whole batches with right checksums.

    `begin` is where the first batch begins, when that is before the first of the records.
    """
    if not len(starts):
        return Intact(end, offset, 0, 0)
    begin = int(starts[0]) if begin is None else begin
    ends = np.append(starts[1:], end)
    lasts = np.flatnonzero(gather(data, size, "u1", starts + 20) & LAST)
    if not len(lasts) or int((ends - starts)[lasts].min()) < _SMALLEST_BATCH:
        lasts = lasts[: int(np.argmax((ends - starts)[lasts] < _SMALLEST_BATCH))] if len(lasts) else lasts
        if not len(lasts):
            return Intact(begin, offset, 0, 0)
    batch_ends = ends[lasts]
    batch_begins = np.append(begin, batch_ends[:-1])
    carried = gather(data, size, ">u8", batch_ends - 16)
    fits = gather(data, size, ">u4", batch_ends - 8) == batch_ends - batch_begins
    sums = gather(data, size, ">u4", batch_ends - 4).tolist()
    good = len(lasts) if fits.all() else int(np.argmin(fits))
    view: Column = np.frombuffer(data, np.uint8)
    for i, (a, b) in enumerate(zip(batch_begins[:good].tolist(), (batch_ends[:good] - 4).tolist(), strict=True)):
        if crc32c(data[a:b] if b - a < 4096 else view[a:b]) != sums[i]:  # a small copy is cheaper than a small view
            good = i
            break
    if not good:
        return Intact(begin, offset, 0, 0)
    last = int(lasts[good - 1])
    following = int(gather(data, size, ">u8", starts[last : last + 1])[0]) + 1
    return Intact(int(batch_ends[good - 1]), following, int(carried[:good].max()), last + 1)


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
