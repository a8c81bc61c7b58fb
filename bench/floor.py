"""What no log can beat: the system's own calls on bytes that are ready."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from google_crc32c import value as crc32c

from bench.case import Sample


class BareWrites:
    """A file that grows by `os.write` of `size` ready bytes, with `fdatasync` after each unless `synced` is False."""

    def __init__(self, path: Path, size: int, *, synced: bool = True) -> None:
        # Appending, so that several processes can share the file as they share a partition.
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._block = os.urandom(size)
        self._synced = synced

    def round(self, count: int, pieces: int = 1, clock: Callable[[], float] = time.perf_counter) -> Sample:
        """Write `count` times; one write counts as so many pieces."""
        fd, block, write, sync = self._fd, self._block, os.write, os.fdatasync
        begun = clock()
        if self._synced:
            for _ in range(count):
                write(fd, block)
                sync(fd)
        else:
            for _ in range(count):
                write(fd, block)
        return Sample(count * pieces, clock() - begun)

    def writing(self, count: int) -> Sample:
        """As `round`, but only the writes are timed: each finds the caches as a sync has left them."""
        fd, block, write, sync, clock = self._fd, self._block, os.write, os.fdatasync, time.perf_counter
        spent = 0.0
        for _ in range(count):
            begun = clock()
            write(fd, block)
            spent += clock() - begun
            sync(fd)
        return Sample(count, spent)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> BareWrites:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bare_read(paths: Sequence[Path], *, summed: bool = False, chunk: int = 1 << 20) -> int:
    """Read files with `readinto`, and with `summed` run crc32c over every chunk; return the bytes read."""
    buffer = bytearray(chunk)
    total = 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while got := file.readinto(buffer):
                if summed:
                    crc32c(bytes(buffer) if got == chunk else bytes(buffer[:got]))
                total += got
    return total
