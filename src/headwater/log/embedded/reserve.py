"""A small reserve of disk space: what frees space needs some itself, and must work on a full disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headwater.core.errors import DiskFull
from headwater.core.files import Files, write_all

T = TypeVar("T")
SIZE = 256 << 10  # room for the manifest of a partition with a thousand segments, the commit page and a few names
NAME = ".reserve"  # no topic's name begins with a dot
_LEAST = SIZE // 4  # what is kept of one that was spent, and does not fit any more


class Reserve:
    """A file of zeros beside the topics. A call that frees space may remove it first; afterwards it is made again."""

    def __init__(self, folder: Path, *, files: Files) -> None:
        self._path, self._files = folder / NAME, files

    def fill(self, least: int = SIZE) -> None:
        """Make the file, if it is not there. On a disk that is full already, it is made after the next deletion.

        `least`: a shorter file than this only takes space away, and is removed.
        """
        try:
            if self._path.stat().st_size == SIZE:
                return
        except FileNotFoundError:
            pass
        except OSError:
            return
        try:
            fd = self._files.open(self._path, os.O_WRONLY | os.O_CREAT)
            try:
                write_all(self._files, fd, [bytes(SIZE)], 0)
            finally:
                self._files.close(fd)
        except OSError:
            self._keep(least)

    def spend(self, call: Callable[[], T]) -> T:
        """Call; where the disk is full, give the reserve back and call once more. Errors: those of `call`."""
        try:
            return call()
        except DiskFull:
            if not self._give_back():
                raise
        try:
            return call()
        finally:
            self.fill(_LEAST)  # a little shorter, where the call has taken some of it: the next one frees more

    def _keep(self, least: int) -> None:
        """Keep what was written of the file, where it is enough."""
        try:
            enough = self._path.stat().st_size >= least
        except OSError:
            return
        if not enough:
            self._give_back()

    def _give_back(self) -> bool:
        try:
            self._files.unlink(self._path)
        except OSError:
            return False
        return True
