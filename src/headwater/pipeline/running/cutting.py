"""Cuts the messages that a sink has not taken into parts that tasks can write in parallel, in an order that keeps each document right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.log import Log
from headwater.log.record import Mode
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.ranges import Span

_SHARED = 4000  # changes: one task takes fewer
_FEW = 8  # records: so few are read much faster as records than as columns
_FIRST = 1024  # records of the first chunk; each further one is four times as large
Numbers = npt.NDArray[np.int64]


class Cut(NamedTuple):
    """Parts (start, end, bucket, buckets) to deliver now. `shared`: one range, split by the documents' ids."""

    parts: list[tuple[int, int, int, int]]
    shared: bool

    @property
    def size(self) -> int:
        return sum(end - start for start, end, _, _ in self.parts) // (len(self.parts) if self.shared else 1)


def cut(
    log: Log,
    topic: str,
    gaps: Sequence[Span],
    *,
    width: int,
    shares: int,
    most: int,
    copy: Span,
    repeats: bool = False,
    by_offset: bool = False,
) -> Cut:
    """The next parts of the gaps. A copy goes in consecutive slices; changes go in one range whose documents are shared by id.

    `width` parts at most; `shares` tasks share changes. `copy`: the offsets that hold the newest copy and nothing else; the modes of
    others are read from the log. That copy may repeat documents of an older one: no range crosses its beginning, and older ones, which
    repeat those that were broken off, are shared by id as changes are. `repeats`: so is the newest, because ids occur more than once in it.
    `by_offset`: the sink keeps the order of offsets whoever writes first, as files do that are named by them: everything goes in
    consecutive slices.
    """
    start, end = gaps[0]
    if copy[0] <= start < copy[1] and (by_offset or not repeats):
        gaps = [(a, min(b, copy[1])) for a, b in gaps if a < copy[1]]
    else:
        older = start < copy[0]  # perhaps several copies of the same documents, one of which was broken off
        end = min(end, start + width * most, copy[0] if older else end)
        end, mode = _same_mode(log, topic, start, end)
        if (mode == Mode.SYNC or repeats or older) and not by_offset:
            end = min(end, start + most)
            buckets = shares if end - start >= _SHARED else 1
            return Cut([(start, end, bucket, buckets) for bucket in range(buckets)], buckets > 1)
        gaps = [(start, end)]
    parts: list[tuple[int, int, int, int]] = []
    for a, b in gaps:
        room = width - len(parts)
        if room <= 0:
            break
        b = min(b, a + room * most)
        count = max(1, min(room, -(-(b - a) // most), b - a) if b - a > most else min(room, max(1, (b - a) // 2000)))
        cuts = [a + (b - a) * i // count for i in range(count + 1)]
        parts += [(x, y, 0, 1) for x, y in pairwise(cuts)]
    return Cut(parts, False)


def _same_mode(log: Log, topic: str, start: int, end: int) -> tuple[int, Mode]:
    """The end of the records with the mode of `start`. Commands have a range of their own: no message overtakes them.

    So have the records that end a copy: another copy of the same documents may follow.
    """
    first: int | None = None
    for offsets, kinds in _kinds(log, topic, start, end):
        if first is None:
            first = int(kinds[0])
        other = np.flatnonzero(kinds != first)
        if len(other):
            return int(offsets[other[0]]), Mode.SYNC if first else Mode.COPY
    return end, Mode.SYNC if first else Mode.COPY


def _kinds(log: Log, topic: str, start: int, end: int) -> Iterator[tuple[Numbers, Numbers]]:
    """The offsets of the records and what each is. The first chunks are small: where messages trickle in, or commands come often, the
    range ends soon, and decoding tens of thousands of records to find that out would cost more than to deliver them."""
    if end - start <= _FEW:
        records = log.read(topic, 0, start, limit=end - start)
        rows = [(record.offset or 0, record.mode, record.op) for record in records if (record.offset or 0) < end]
        if rows:
            offsets, modes, ops = np.array(rows, np.int64).T
            yield offsets, _kind(modes, ops)
        return
    size = _FIRST
    while start < end:
        upto = min(end, start + size)
        for chunk in log.scan(topic, 0, start, upto):
            if len(chunk):
                offset, mode, op = (chunk.column(name).to_numpy(zero_copy_only=False) for name in ("offset", "mode", "op"))
                yield offset, _kind(mode, op)
        start, size = upto, size * 4


def _kind(modes: Numbers, ops: Numbers) -> Numbers:
    return np.where(modes == Mode.SYNC, 1, 0) + np.where(ops == Op.COMMAND, 2, 0) + np.where(modes == Mode.COMPLETE, 4, 0)
