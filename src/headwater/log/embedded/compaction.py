"""Compaction: among the closed segments and below an offset, only the last record of each key stays, at its offset.

A newer record in the active segment does not make an older one removable, so that the closed segments alone show every key.
Safe after a crash at each step: new files carry a new generation in their names and count only once the manifest names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.core.disposal import overwrites
from headwater.core.errors import BadBounds, Conflict, Damaged, Fenced
from headwater.core.files import FileLock, explaining
from headwater.log.embedded.columns import decode_columns, reencode
from headwater.log.embedded.fields import Column, gather
from headwater.log.embedded.housekeeping import next_generation, swap
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.partition import Partition
from headwater.log.embedded.rewriting import SegmentWriter
from headwater.log.embedded.view import RecordSlice, SegmentView
from headwater.log.embedded.wiping import discard
from headwater.log.record import Compacted, whole

_RECORDS = 65_536
_BYTES = 8 << 20


class _Plan(NamedTuple):
    segment: Segment
    keep: Column  # one truth value per record
    size: int  # bytes that stay


def compact(partition: Partition, *, before: int | None, epoch: int | None = None) -> Compacted:
    """Compact the closed segments of a partition below `before` (all of them without it), under the claim `epoch` (None: without one).

    Errors: `BadBounds` beyond the end; `Conflict` when another compaction is under way; `Damaged`; `DiskFull`. All leave the log as it was.
    `Fenced` does so, too, for a claim that was stale at the beginning; for one that became stale meanwhile, what is not yet compacted.
    """
    with partition.exclusive:
        end = partition.page.durable_offset
    if before is not None and not 0 <= whole(before) <= end:
        raise BadBounds(f"{partition.name} ends at offset {end}; {before} is not in it.", hint=f"Give an offset up to {end}.")
    with explaining(partition.folder):
        lock = FileLock(partition.files, partition.folder / "compacting")
        try:
            if not lock.try_exclusive():
                raise Conflict(f"{partition.name} is being compacted already.", hint="Wait for it to end.")
            return _compact(partition, end if before is None else before, epoch)
        except FileNotFoundError as error:
            raise _deleted_meanwhile(partition) from error  # a concurrent `delete_before` has removed the segment
        finally:
            lock.close()


def _deleted_meanwhile(partition: Partition) -> Conflict:
    return Conflict(f"Segments of {partition.name} were deleted while they were compacted.", hint="Compact again.")


def _compact(partition: Partition, before: int, epoch: int | None) -> Compacted:
    generation = next_generation(partition, epoch)
    now = partition.manifest  # what `stored` gives is compared with the page, and corrects it: only under the lock
    closed = [segment for segment in now.segments[:-1] if segment.base < before]
    plans = _plans(partition, now, closed, before)
    kept = bytes_after = 0
    for group in _groups(plans, partition.settings.segment):
        survivors = int(sum(int(plan.keep.sum()) for plan in group))
        kept += survivors
        if len(group) == 1 and group[0].keep.all():
            bytes_after += group[0].segment.length
            continue
        old = [plan.segment for plan in group]
        new = _rewrite(partition, group, generation) if survivors else []
        try:  # when something else is raised, the manifest may name the new files all the same: they stay until the next opening
            swapped = swap(partition, old, new, epoch)
        except Fenced:
            discard(partition.files, partition.folder, new, secure=overwrites(partition.settings.disposal))
            raise
        if not swapped:
            discard(partition.files, partition.folder, new, secure=overwrites(partition.settings.disposal))
            raise _deleted_meanwhile(partition)
        bytes_after += sum(segment.length for segment in new)
    return Compacted(
        records_before=sum(len(plan.keep) for plan in plans),
        records_after=kept,
        bytes_before=sum(segment.length for segment in closed),
        bytes_after=bytes_after,
    )


def _plans(partition: Partition, now: Manifest, closed: list[Segment], before: int) -> list[_Plan]:
    """Which records stay, decided from the newest segment to the oldest: the first time a key is met is its last record."""
    seen: set[bytes] = set()
    plans = []
    for segment in reversed(closed):
        keep: list[Column] = []
        size = 0
        slices = list(_slices(partition, segment))
        for piece in reversed(slices):
            rows = decode_columns(piece.data, piece.size, piece.starts)
            chosen = _survivors(rows, seen, now.start, before)
            keep.append(chosen)
            size += int((21 + gather(piece.data, piece.size, ">u4", piece.starts + 8).astype(np.int64))[chosen].sum())
        whole: Column = np.concatenate(keep[::-1]) if keep else np.empty(0, bool)
        plans.append(_Plan(segment, whole, size))
    return plans[::-1]


def _survivors(rows: pa.RecordBatch, seen: set[bytes], start: int, before: int) -> Column:
    """One truth value per record; records without a key, and those from `before` on, always stay."""
    offsets = rows.column("offset").to_numpy()
    keep: Column = offsets >= max(start, before)
    eligible = np.flatnonzero((offsets >= start) & (offsets < before))
    if not len(eligible):
        return keep
    keys = rows.column("key").slice(int(eligible[0]), len(eligible)).cast(pa.binary())
    encoded = keys.dictionary_encode()
    numbers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    keep[eligible[numbers < 0]] = True
    last = np.zeros(len(encoded.dictionary), np.int64)
    last[numbers[numbers >= 0]] = eligible[numbers >= 0]  # the last assignment wins
    for key, row in zip(encoded.dictionary.to_pylist(), last.tolist(), strict=True):
        if key not in seen:
            seen.add(key)
            keep[row] = True
    return keep


def _groups(plans: list[_Plan], size: int) -> Iterator[list[_Plan]]:
    """Neighbours that fit together into one segment: small results are merged."""
    group: list[_Plan] = []
    for plan in plans:
        if group and sum(member.size for member in group) + plan.size > size:
            yield group
            group = []
        group.append(plan)
    if group:
        yield group


def _rewrite(partition: Partition, group: list[_Plan], generation: int) -> list[Segment]:
    first, last = group[0].segment, group[-1].segment
    writer = SegmentWriter(partition.files, partition.folder, Segment(first.base, generation, created=first.created, dense=False))
    try:
        for plan in group:
            done = 0
            for piece in _slices(partition, plan.segment):
                keep = plan.keep[done : done + len(piece.starts)]
                done += len(piece.starts)
                if done > len(plan.keep):
                    break
                chosen = piece.starts[keep]
                for part in _parts(piece, chosen):
                    writer.add(reencode(piece.data, piece.size, part), last.end)
            if done != len(plan.keep):  # the plan was made for other records than these
                raise Damaged(
                    f"{plan.segment.log(partition.folder)} changed while it was compacted.",
                    hint=f"Look at it with `headwater log check {partition.name}`.",
                )
        return [writer.finish(last.end)]
    except BaseException:
        writer.abandon(secure=overwrites(partition.settings.disposal))
        raise


def _slices(partition: Partition, segment: Segment) -> Iterator[RecordSlice]:
    """All records of a closed segment, checked, in steps. `Damaged` unless every batch up to the segment's end is whole."""
    view = SegmentView(partition.folder, segment, hint=f"Look at it with `headwater log check {partition.name}`.")
    try:
        start = segment.base
        while start < segment.end:
            piece = view.slice(start, segment.end, segment.length, _RECORDS)
            if not len(piece.starts):
                return
            yield piece
            start = int(gather(piece.data, piece.size, ">u8", piece.starts[-1:])[0]) + 1
    finally:
        view.close()


def _parts(piece: RecordSlice, starts: Column) -> Iterator[Column]:
    """Cut into batches of a few MiB."""
    if not len(starts):
        return
    sizes = 21 + gather(piece.data, piece.size, ">u4", starts + 8).astype(np.int64)
    yield from np.split(starts, np.flatnonzero(np.diff(np.cumsum(sizes) // _BYTES)) + 1)
