"""What unit tests of the embedded log's parts stand on: one topic with one partition, and its files."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headwater.core.files import Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.partition import Partition
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock

BOOT = b"b" * 16


class Ground:
    """The partition `t 0` of a data directory. Logs that are opened here are closed at the end."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path, self.folder, self.clock, self.boot = path, path / "log" / "t" / "0", ManualClock(), BOOT
        self._stack = stack

    def open(self, *, files: Files | None = None, boot: bytes = BOOT, read_only: bool = False) -> EmbeddedLog:
        log = EmbeddedLog(self.path, clock=self.clock, boot=boot, files=files, read_only=read_only)
        return self._stack.enter_context(log)

    def fill(self, count: int, *, segment: int = 300) -> EmbeddedLog:
        """A log with records of single batches: value `value-n`, of five keys."""
        log = self.open()
        log.create_topic("t", settings=TopicSettings(segment=segment))
        for n in range(count):
            log.append("t", 0, [Record(b"key-%d" % (n % 5), b"value-%d" % n, timestamp=n)])
        return log

    def partition(self, log: EmbeddedLog) -> Partition:
        return log.partition("t", 0)

    def segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def values(self, log: EmbeddedLog, start: int = 0) -> list[bytes | None]:
        return [record.value for record in log.read("t", 0, start, limit=10_000)]

    def flip(self, path: Path, at: int) -> None:
        raw = bytearray(path.read_bytes())
        raw[at] ^= 1
        path.write_bytes(raw)

    def mapped(self, path: Path) -> tuple[mmap.mmap, int]:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            return mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ), size


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ExitStack() as stack:
        yield Ground(tmp_path, stack)
