"""Writes a complete segment, for compaction, import and repair."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import numpy as np

from headwater.core.files import Bytes, Files, write_all
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.wiping import discard
from headwater.log.layout import EncodedBatch, close


class SegmentWriter:
    """Writes batches into a new file that no manifest names yet. `finish` syncs it; a crash before leaves a file that is swept."""

    def __init__(self, files: Files, folder: Path, segment: Segment) -> None:
        self._files, self._folder, self.segment = files, folder, segment
        self._fd = files.open(segment.log(folder), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self._pos_fd = files.open(segment.pos(folder), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        except OSError:
            files.close(self._fd)
            raise
        self.length = self.records = 0

    def add(self, batch: EncodedBatch, durable: int) -> None:
        """Write a batch that has its offsets; `durable` is the durable end that its trailer carries."""
        close(batch.buffer, durable)
        self.copy(batch.buffer, np.asarray(batch.starts, np.int64))

    def copy(self, whole: Bytes, starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Write whole batches unchanged."""
        write_all(self._files, self._fd, [whole], self.length)
        write_all(self._files, self._pos_fd, [(starts + self.length).astype("<u4").tobytes()], self.records * 4)
        self.length += len(whole)
        self.records += len(starts)

    def finish(self, end: int) -> Segment:
        """Sync it and give its entry for the manifest, closed at offset `end`."""
        try:
            self._files.sync(self._fd)
            self._files.sync(self._pos_fd)
        finally:
            self._close()
        self._files.sync_dir(self._folder)
        return msgspec.structs.replace(self.segment, length=self.length, end=end)

    def abandon(self, *, secure: bool = False) -> None:
        """Remove what was written; `secure`: overwrite it first."""
        self._close()
        discard(self._files, self._folder, [self.segment], secure=secure)

    def _close(self) -> None:
        fds, self._fd, self._pos_fd = (
            (self._fd, self._pos_fd),
            -1,
            -1,
        )  # before closing: a descriptor that is closed twice may be another thread's by then
        for fd in fds:
            if fd >= 0:
                self._files.close(fd)
