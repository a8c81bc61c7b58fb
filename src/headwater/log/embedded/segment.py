"""The descriptors through which a process writes a segment."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from headwater.core.files import Files, write_all
from headwater.log.embedded.manifest import Segment

_AHEAD = 1 << 20
_ZEROS = memoryview(bytes(_AHEAD))


class OpenSegment:
    """A segment's file and sidecar, open for writing. `pins` are the threads whose appends still have to sync through it.

    Behind the data, the file of an active segment holds zeros: up to 1 MiB that is written ahead, so that a sync of a batch has no new
    length and no new blocks to record. Nobody takes them for data. `trim` gives them back.
    """

    def __init__(self, files: Files, folder: Path, segment: Segment, *, most: int = 0) -> None:
        """`most`: the size of a full segment; nothing is written ahead beyond it."""
        self._files, self._most = files, most
        self.segment = segment
        self.path = segment.log(folder)
        self.fd = files.open(self.path, os.O_RDWR)
        try:
            self.pos_fd = files.open(segment.pos(folder), os.O_RDWR | os.O_CREAT)
        except OSError:
            files.close(self.fd)
            raise
        self.pins: set[int] = set()
        self.retired = False
        self._reserved = 0  # the file has at least this length, as far as this process knows; -1: nothing can be written ahead

    def write(self, buffer: bytearray | memoryview, rows: bytes, position: int, row: int) -> None:
        """The batch, then its sidecar rows."""
        pwritev, size = self._files.pwritev, len(buffer)
        if position + size > self._reserved >= 0:
            self._reserve(position + size)
        if (done := pwritev(self.fd, (buffer,), position)) < size:
            write_all(self._files, self.fd, [memoryview(buffer)[done:]], position + done)
        if (done := pwritev(self.pos_fd, (rows,), row * 4)) < len(rows):
            write_all(self._files, self.pos_fd, [memoryview(rows)[done:]], row * 4 + done)

    def reserved(self, end: int) -> bool:
        """Whether a write up to `end` has nothing to write ahead."""
        return end <= self._reserved

    def _reserve(self, end: int) -> None:
        """Write zeros behind `end`, as much again as there is data: small partitions take little space. A failure costs only speed."""
        wanted = min(end + min(_AHEAD, max(1 << 14, end)), self._most)
        try:
            size = os.fstat(self.fd).st_size
            begin = max(size, end)  # what comes before is about to be written
            if begin < wanted:
                write_all(self._files, self.fd, [_ZEROS[: wanted - begin]], begin)
            self._reserved = max(wanted, end, size)  # a recycled file is longer: zeros to its end
        except OSError:
            self._reserved = -1  # a full disk: not tried again through this descriptor before it is truncated

    def trim(self, position: int) -> None:
        """Give back what was written ahead of `position`, where the data end."""
        if os.fstat(self.fd).st_size > position:
            self._reserved = 0
            self._files.truncate(self.fd, position)

    def truncate(self, position: int, row: int) -> None:
        self._reserved = 0
        self._files.truncate(self.fd, position)
        self._files.truncate(self.pos_fd, row * 4)

    def rewrite(self, begin: int, end: int) -> None:
        """Write bytes again as they are: a lost write of another process is then this descriptor's to report."""
        while begin < end:
            piece = os.pread(self.fd, min(end - begin, 8 << 20), begin)
            if not piece:
                raise OSError(errno.EIO, f"the file ends at byte {begin}, {end - begin} bytes short")
            write_all(self._files, self.fd, [piece], begin)
            begin += len(piece)

    def sync(self) -> None:
        self._files.datasync(self.fd)

    def sync_sidecar(self) -> None:
        self._files.datasync(self.pos_fd)

    def retire(self) -> None:
        """Close once the last append has synced: a descriptor's number must not be given to another file before."""
        self.retired = True
        self.unpin(0)

    def unpin(self, thread: int) -> None:
        self.pins.discard(thread)
        if self.retired and not self.pins:
            self.close()

    def close(self, close: Callable[[int], None] | None = None) -> None:
        close = close or self._files.close
        for name in ("fd", "pos_fd"):
            fd = getattr(self, name)
            setattr(self, name, -1)
            if fd >= 0:
                close(fd)


def create(files: Files, folder: Path, segment: Segment, *, recycled: bool = False) -> None:
    """Make an empty segment whose name is durable. One that a dead process left half made is made anew.

    `recycled`: its file is there, full of zeros that are synced.
    """
    for path in (segment.log(folder), segment.pos(folder))[recycled:]:
        fd = files.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            files.sync(fd)
        finally:
            files.close(fd)
    files.sync_dir(folder)
