"""Reading one slice of a copy into the log. Runs inside Spark's tasks, where slices are read side by side, or in the run itself."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from headwater.core.files import FileLock, Files
from headwater.log import Log, Writer
from headwater.pipeline.adaptor import CanCopy, Slice
from headwater.pipeline.running.progress import append, positions
from headwater.pipeline.running.work import Progress

_MISSING = object()


class CopyWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a task needs to read slices."""

    pipeline: str
    topic: str
    adaptor: CanCopy
    slices: tuple[Slice, ...]
    copy: str
    epoch: int
    positions: dict[int, Any]  # as known when the round began, at `since`
    since: int
    most: int  # bytes that one round reads of a slice: sinks want their turn


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What a round read of a slice."""

    slice: int
    position: Any
    finished: bool
    records: int = 0
    bytes: int = 0


def copy_slice(log: Log, work: CopyWork, number: int, writer: Writer | None = None) -> Copied:
    """Read on in a slice until it ends or the round's share is read; every piece is one append with its position.

    A task that is tried again goes on where the dead attempt's records end: their positions are in the log.
    """
    with ExitStack() as stack:
        if writer is None:
            lock = _one_attempt(log, work, number)
            stack.callback(lock.forget)
            writer = log.writer(work.topic, 0, work.epoch)
            position = positions(log, work.topic, work.since, work.copy).get(number, work.positions.get(number))
        else:
            position = work.positions.get(number)
        part = work.slices[number]
        records = size = 0
        pieces = work.adaptor.read(part, position)
        while size < work.most:
            piece = next(pieces, None)
            if piece is None:
                return Copied(slice=number, position=position, finished=True, records=records, bytes=size)
            position = piece.position
            count, length = append(writer, piece, part.namespace, Progress(work.copy, number, position))
            records, size = records + count, size + length
        return Copied(slice=number, position=position, finished=False, records=records, bytes=size)


def _one_attempt(log: Log, work: CopyWork, number: int) -> FileLock:
    """Held while a slice is read: a second attempt of the same task waits until the first one is dead, then sees all that it wrote."""
    folder = Path(log.address.path) / "pipelines" / work.pipeline
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(Files(), folder / f"slice-{number}.lock")
    lock.exclusive()
    return lock
