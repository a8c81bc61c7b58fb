"""What is whole at the end of a partition after its processes have died: found by `survey`, made true by the partition's opening.

The durable end is the highest of: the commit page's (if no power was lost since), the manifest's, and every end that an intact batch
carries. A bad batch below it is damage, never cut in silence. A bad batch above it is the torn tail of a write that nobody acknowledged.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headwater.core.errors import Damaged
from headwater.log.embedded import batches
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.fields import Column
from headwater.log.embedded.manifest import Manifest
from headwater.log.embedded.page import SegmentPosition

_STEP = 1 << 20
_ZEROS = bytes(_STEP)
_TRAILING = 8  # bytes at the end of a batch that may be zeros: its checksum, and most of its length


class Survey(NamedTuple):
    """The end of a partition as its bytes tell it."""

    place: SegmentPosition  # after the last intact batch of the active segment
    durable: int  # the highest durable end that page, manifest or batches tell
    row: int  # number of the first surveyed record within its segment
    starts: Column  # where the intact records from there on begin
    size: int  # of the active segment's file: what lies behind `place` is torn, or damage, or zeros that were written ahead
    written: int  # where the zeros at its end begin
    damage: Damaged | None


def survey(folder: Path, manifest: Manifest, *, known: int, hint: str) -> Survey:
    """Look at the active segment behind the manifest's durable end; read only.

    `known` is the commit page's durable end where it can be believed, else 0.
    """
    segment = manifest.active
    manifests.check_newest(folder, manifest)
    for closed in manifest.segments[:-1]:
        _present(closed.log(folder), closed.length, hint)
    place = manifest.durable if manifest.durable.base == segment.base else SegmentPosition(segment.base, 0, segment.base)
    path = segment.log(folder)
    _present(path, place.position, hint)
    row = place.offset - segment.base
    durable = max(known, manifest.durable.offset)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        written = _written(fd, place.position, size)
        stop_at = min(size, written + _TRAILING)
        if written == place.position:
            intact = batches.Intact(place.position, place.offset, 0, 0)
            starts: Column = np.empty(0, np.int64)
            later = 0
        else:
            data = _copied(fd, place.position, stop_at)
            rows, stop = batches.prove(data, sidecar(segment.pos(folder), row), place.position, stop_at, place.offset)
            walked, stop = batches.walk(data, stop, stop_at, place.offset + len(rows))
            starts = np.append(rows, np.array(walked, np.int64))
            intact = (
                batches.check(data, stop_at, starts, stop, place.offset)
                if len(starts)
                else batches.Intact(place.position, place.offset, 0, 0)
            )
            starts = starts[: intact.records]
            later = batches.later_end(data, intact.position, stop_at, intact.offset) if intact.position < stop_at else 0
    finally:
        os.close(fd)
    durable = max(durable, intact.durable)
    damage = None
    if intact.offset < max(durable, later):
        durable = max(durable, later)
        damage = Damaged(
            f"{path} is damaged at byte {intact.position}, offset {intact.offset}; records up to offset {durable - 1} were acknowledged.",
            hint=hint,
        )
    return Survey(SegmentPosition(segment.base, intact.position, intact.offset), durable, row, starts, size, written, damage)


def _written(fd: int, begin: int, end: int) -> int:
    """Where the zeros begin that reach to `end`, not before `begin`. A recycled file may have hundreds of MiB of them."""
    while begin < end:
        at = max(begin, end - _STEP)
        piece = os.pread(fd, end - at, at)
        if piece != _ZEROS[: len(piece)]:  # compared first, which is much faster than looking for the last byte
            return at + len(piece.rstrip(b"\0"))
        end = at
    return begin


def _copied(fd: int, begin: int, end: int) -> mmap.mmap:
    """The bytes [begin, end) of a file at their own positions in memory of our own; zeros before them, and behind where it ends early.

    Not a map of the file: a reader may look at a torn tail while another process cuts it off, and would die of SIGBUS.
    """
    memory = mmap.mmap(-1, end, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with memoryview(memory) as view:
        while begin < end and (count := os.preadv(fd, [view[begin:end]], begin)):
            begin += count
    return memory


def sidecar(path: Path, row: int) -> Column:
    """The rows of a sidecar from `row` on, as they are: nothing says that they are true. None where it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(row * 4)
            raw = file.read()
    except OSError:
        raw = b""
    return np.frombuffer(raw[: len(raw) // 4 * 4], "<u4")


def _present(path: Path, length: int, hint: str) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise Damaged(f"{path} is missing.", hint=hint) from None
    if size < length:
        raise Damaged(f"{path} is damaged at byte {size}: the file ends there, {length - size} bytes short.", hint=hint)
