"""Checks every batch of a partition up to the durable end, and reports the partition's statistics. Read-only."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from headwater.core.errors import Damaged, Unavailable
from headwater.core.files import explaining
from headwater.log.embedded import batches
from headwater.log.embedded.fields import Column, gather
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.reader import PartitionReader
from headwater.log.embedded.recovery import sidecar
from headwater.log.embedded.segment_lock import open_shared

MISSING = "the file is missing"
_TRIES = 20  # a compaction beside a check makes another look necessary


class Damage(msgspec.Struct, frozen=True):
    """A damaged place: where it begins, and where intact batches begin again (-1: not before the segment's end)."""

    file: str
    position: int
    offset: int
    what: str
    resumes_at: int = -1
    resumes_offset: int = -1


class Checked(msgspec.Struct, frozen=True):
    """The result of `check` for one partition. `damage` lists the damaged places in order; without any, every byte is right."""

    partition: str
    segments: int
    records: int
    bytes: int
    damage: list[Damage]


class PartitionStats(msgspec.Struct, frozen=True):
    """The statistics of a partition."""

    partition: str
    start: int
    end: int
    segments: int
    bytes: int
    epoch: int
    cuts: int  # side files that recovery and repair have made
    damage: str  # what keeps it from being written; empty when nothing does
    drained: int  # files of deleted segments that wait for their disposal: somebody reads them, or the disk refused
    spares: int  # files of zeros that become segments again


def check(reader: PartitionReader) -> Checked:
    """Check every batch of a partition up to its durable end. Changes nothing.

    Errors: `Damaged` when there is not even a manifest to go by; `Unavailable` while others compact it again and again.
    """
    with explaining(reader.folder, reading=True):
        return _check(reader)


def _check(reader: PartitionReader) -> Checked:
    seen: dict[Segment, _Seen] = {}
    for _ in range(_TRIES):
        extents = reader.extents()
        for segment, end, limit in extents:
            if segment not in seen or not segment.closed:
                seen[segment] = _look(reader.folder, segment, end, limit)
                if seen[segment].missing and not reader.names(segment):
                    break  # compacted or deleted meanwhile: check the new segments
        else:
            checked = [seen[segment] for segment, _, _ in extents]
            damage = [piece for part in checked for piece in part.damage]
            return Checked(reader.name, len(checked), sum(part.records for part in checked), sum(part.bytes for part in checked), damage)
    raise Unavailable(f"The segments of {reader.name} are replaced faster than they can be checked.", hint="Check it again.")


class _Seen(NamedTuple):
    records: int
    bytes: int
    damage: list[Damage]

    @property
    def missing(self) -> bool:
        return any(piece.what == MISSING for piece in self.damage)


def _look(folder: Path, segment: Segment, end: int, limit: int) -> _Seen:
    records = size = 0
    damage: list[Damage] = []
    for piece in examine(folder, segment, end, limit):
        if isinstance(piece, Damage):
            damage.append(piece)
        else:
            records += len(piece.starts)
            size += piece.end - piece.begin
    return _Seen(records, size, damage)


class Whole(msgspec.Struct, frozen=True):
    """A stretch of intact batches: bytes [begin, end), where its records begin, and the offset after the last."""

    begin: int
    end: int
    starts: Column
    following: int
    carried: int  # the highest durable end that one of its batches carries


def examine(folder: Path, segment: Segment, end: int, limit: int) -> Iterator[Whole | Damage]:
    """The intact stretches of a segment's first `limit` bytes and the damaged places between them, in order.

    Zeros up to the end of a segment that is not closed are none: its writer keeps room for what comes next.
    """
    path = segment.log(folder)
    try:
        fd = open_shared(path)
        try:
            stop_at = min(os.fstat(fd).st_size, limit)  # not beyond: what lies there may be cut off while this looks
            data = mmap.mmap(fd, stop_at, prot=mmap.PROT_READ) if stop_at else None
        finally:
            os.close(fd)
    except FileNotFoundError:
        yield Damage(str(path), 0, segment.base, MISSING)
        return
    at, offset = 0, segment.base
    rows = sidecar(segment.pos(folder), 0).astype(np.int64)
    beyond = -1 if segment.dense else segment.end if segment.closed else _NEVER
    while data is not None and at < stop_at:
        whole = _stretch(data, rows if at == 0 else rows[:0], at, stop_at, offset, beyond)
        if len(whole.starts):
            yield whole
            at, offset = whole.end, whole.following
        if at < stop_at:
            if not segment.closed and not np.frombuffer(data, np.uint8)[at:stop_at].any():
                limit = at
                break
            resumed = _resync(data, at, stop_at, offset)
            yield Damage(str(path), at, offset, "the checksum of the batch there is wrong, or no record begins there", *resumed)
            if resumed[0] < 0 or 0 <= beyond <= resumed[1]:  # intact batches there belong to another segment
                return
            at, offset = resumed
    if at < limit:
        yield Damage(str(path), at, offset, f"the file ends there, {limit - at} bytes short")
    elif offset < end and segment.dense:
        yield Damage(str(path), at, offset, f"records up to offset {end - 1} are missing")


_NEVER = 1 << 62  # above every offset, because the segment's end is not known


def _stretch(data: mmap.mmap, rows: Column, at: int, size: int, offset: int, end: int) -> Whole:
    """The whole batches from `at` on. `end`: the offset at which a segment with holes ends; -1 for one without."""
    dense = end < 0
    starts, stop = batches.prove(data, rows, at, size, offset, dense=dense)
    if stop < size:
        following = offset + len(starts) if dense else offset if not len(starts) else int(gather(data, size, ">u8", starts[-1:])[0]) + 1
        walked, stop = batches.walk(data, stop, size, following, dense=dense)
        starts = np.append(starts, np.array(walked, np.int64))
    if not dense and len(starts):
        inside = int(np.searchsorted(gather(data, size, ">u8", starts).astype(np.int64), end))
        starts, stop = (starts[:inside], int(starts[inside])) if inside < len(starts) else (starts, stop)
    intact = batches.check(data, size, starts, stop, offset) if len(starts) else batches.Intact(at, offset, 0, 0)
    return Whole(at, intact.position, starts[: intact.records], intact.offset, intact.durable)


def _resync(data: mmap.mmap, at: int, size: int, offset: int) -> tuple[int, int]:
    """Where the next intact batch behind some damage begins, and its first offset; (-1, -1) when there is none."""
    begin = batches.next_batch(data, at + 1, size, offset)
    return (-1, -1) if begin < 0 else (begin, int.from_bytes(data[begin : begin + 8], "big"))


def stats(reader: PartitionReader) -> PartitionStats:
    """The statistics of a partition, from its manifest and page."""
    damage = ""
    with explaining(reader.folder, reading=True):
        try:
            bounds = reader.bounds()
            extents = list(reader.extents())
        except Damaged as error:
            bounds, extents, damage = None, [], error.message
        manifest = reader.manifest() if not damage else None
    return PartitionStats(
        partition=reader.name,
        start=bounds.start if bounds else 0,
        end=bounds.end if bounds else 0,
        segments=len(extents),
        bytes=sum(limit for _, _, limit in extents),
        epoch=manifest.epoch if manifest else 0,
        cuts=len(list(reader.folder.glob("*.cut"))),
        damage=damage,
        drained=len(manifest.drained) if manifest else 0,
        spares=len(manifest.spares) if manifest else 0,
    )
