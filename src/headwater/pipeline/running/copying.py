"""Reading slices of a copy into the log. Runs inside Spark's tasks, where slices are read side by side, or in the run itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headwater.core.files import FileLock, Files
from headwater.log import Log, Writer
from headwater.pipeline.adaptor import CanCopy, Piece, Slice
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.running.progress import append, positions
from headwater.pipeline.running.work import CopyProgress, Ids


class CopyWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a task needs to read slices."""

    pipeline: str
    topic: str
    adaptor: CanCopy
    slices: dict[int, Slice]  # by number
    copy: str
    epoch: int
    ids: Ids
    positions: dict[int, Any]  # as known when the round began, at `since`
    since: int
    most: int  # bytes that one round reads: sinks want their turn


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What a round read of a slice."""

    slice: int
    position: Any
    finished: bool
    records: int = 0
    bytes: int = 0


def copy_slices(log: Log, work: CopyWork, task: int, numbers: Sequence[int]) -> list[Copied]:
    """Read on in these slices, one after the other, until the round's share is read.

    A task that is tried again goes on where the dead attempt's records end: their positions are in the log. The same task of every round
    has the same slices, so that its lock keeps a second attempt waiting until the first one is dead, and all that it wrote is seen.
    """
    lock = _one_attempt(log, work, task)
    try:
        known = work.positions | positions(log, work.topic, work.since, work.copy)
        writer = log.writer(work.topic, 0, work.epoch, part=PART)
        done: list[Copied] = []
        left = work.most
        for number in numbers:
            pieces = work.adaptor.read(work.slices[number], known.get(number))
            done.append(copy_slice(work, number, writer, pieces, known.get(number), most=left))
            left -= done[-1].bytes
            if left <= 0:
                break
        return done
    finally:
        lock.close()


def copy_slice(work: CopyWork, number: int, writer: Writer, pieces: Iterator[Piece], position: Any, *, most: int) -> Copied:
    """Read pieces of a slice until it ends or `most` bytes are read; every piece is one append with its position."""
    namespace = work.slices[number].namespace
    records = size = 0
    while size < most:
        piece = next(pieces, None)
        if piece is None:
            return Copied(slice=number, position=position, finished=True, records=records, bytes=size)
        position = piece.position
        count, length = append(writer, piece, namespace, CopyProgress(work.copy, number, position), ids=work.ids)
        records, size = records + count, size + length
    return Copied(slice=number, position=position, finished=False, records=records, bytes=size)


def _one_attempt(log: Log, work: CopyWork, task: int) -> FileLock:
    folder = Path(log.address.path) / "pipelines" / work.pipeline
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(Files(), folder / f"task-{task}.lock")
    lock.exclusive()
    return lock
