"""Where benchmarks put their logs, and what they put into them."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.core.files import Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings

TOPIC = "bench"
KEY, VALUE = 16, 100  # bytes: the record of 100 bytes that the marks speak of
_HEAD, _TRAILER = 29, 16  # bytes that the log adds to a record, and to a batch


class Unsynced(Files):
    """Files that are not synced: for filling a log before it is measured, and for measuring what is our own beside the disk's."""

    def datasync(self, fd: int) -> None:
        pass

    def sync(self, fd: int) -> None:
        pass


class Clocked(Files):
    """Files that tell how long they have been syncing."""

    def __init__(self) -> None:
        self.syncing = 0.0

    def datasync(self, fd: int) -> None:
        begun = time.perf_counter()
        super().datasync(fd)
        self.syncing += time.perf_counter() - begun


class Place:
    """A folder on the disk that is measured. Everything in it is removed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def sub(self, name: str) -> Iterator[Path]:
        """A fresh folder, removed afterwards."""
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def log(self, name: str, *, files: Files | None = None) -> Iterator[EmbeddedLog]:
        """A fresh log with an empty topic of one partition."""
        with self.sub(name) as folder, EmbeddedLog(folder, files=files) as log:
            log.create_topic(TOPIC)
            yield log

    @contextmanager
    def filled(self, count: int, *, per_batch: int, keys: int | None = None, settings: TopicSettings | None = None) -> Iterator[Path]:
        """A folder with the closed log of `count` records in batches of `per_batch`; key i repeats after `keys`."""
        with self.sub("filled") as folder:
            with EmbeddedLog(folder, files=Unsynced()) as log:
                log.create_topic(TOPIC, settings=settings)
                for first in range(0, count, step := max(per_batch, 1000)):
                    rows = columns(first, min(step, count - first), keys)
                    if per_batch >= 1000:
                        log.append_arrow(TOPIC, 0, rows)
                    else:
                        several = as_records(rows)
                        for at in range(0, len(several), per_batch):
                            log.append(TOPIC, 0, several[at : at + per_batch])
            for path in segments(folder):  # what the disk still has to write would disturb the first rounds
                sync_file(path)
            yield folder


def columns(first: int, count: int, keys: int | None = None) -> pa.RecordBatch:
    """Records `first`, `first + 1`, … of 16 + 100 bytes as Arrow columns."""
    numbers = np.arange(first, first + count)
    return pa.RecordBatch.from_arrays([_digits(numbers % keys if keys else numbers, KEY), _digits(numbers, VALUE)], names=["key", "value"])


def as_records(rows: pa.RecordBatch) -> list[Record]:
    return [Record(key, value) for key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True)]


def records(count: int) -> list[Record]:
    """The same as records."""
    return as_records(columns(0, count))


def encoded(count: int) -> int:
    """Bytes on disk of a batch of so many records."""
    return count * (_HEAD + KEY + VALUE) + _TRAILER


def segments(folder: Path) -> list[Path]:
    """The segment files of the log's only partition, in order."""
    return sorted((folder / "log" / TOPIC / "0").glob("*.log"))


def _digits(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], width: int) -> pa.Array:
    """Each number as `width` decimal digits."""
    digits = np.full((len(numbers), width), ord("0"), np.uint8)
    for place in range(min(width, 18)):
        digits[:, width - 1 - place] += (numbers // 10**place % 10).astype(np.uint8)
    ends = np.arange(0, (len(numbers) + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(ends), pa.py_buffer(digits)])


def sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
