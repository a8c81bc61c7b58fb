"""A small reserve of disk space: what frees space needs some itself, and must work on a full disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headwater.core.errors import DiskFull
from headwater.core.files import FULL, Files, write_all

T = TypeVar("T")
SIZE = 256 << 10  # room for the manifest of a partition with a thousand segments, the commit page and a few names
NAME = ".reserve"  # no topic's name begins with a dot
_LEAST = SIZE // 4  # what is kept of one that was spent, and does not fit any more
_PATIENCE = 1.0  # seconds that a write waits at the most for calls that free space


class Reserve:
    """A file of zeros beside the topics. A call that frees space may remove it first; afterwards it is made again.

    Safe for several threads. Calls that free space share it. Other writes of this process wait for them, and are `DiskFull` until it has
    its whole length again (`admit`): else each of those calls would leave them some of it, and nothing could free space any more.
    """

    def __init__(self, folder: Path, *, files: Files) -> None:
        self._path, self._files = folder / NAME, files
        self._freeing: set[int] = set()  # threads in `spend`
        self._changed = threading.Condition()
        self._spenders, self._short = 0, False  # calls that use what was given back; whether some of it was used up

    def fill(self, least: int = SIZE) -> bool:
        """Make the file, if it is not there. On a disk that is full already, it is made after the next deletion, and this returns False.

        `least`: a shorter file than this only takes space away, and is removed.
        """
        try:
            if self._path.stat().st_size == SIZE:
                return True
        except FileNotFoundError:
            pass
        except OSError:
            return True
        try:
            fd = self._files.open(self._path, os.O_WRONLY | os.O_CREAT)
            try:
                write_all(self._files, fd, [bytes(SIZE)], 0)
            finally:
                self._files.close(fd)
        except OSError as error:
            self._keep(least)
            return error.errno not in FULL
        return True

    def spend(self, call: Callable[[], T]) -> T:
        """Call; where the disk is full, give the reserve back and call once more. Errors: those of `call`."""
        me = threading.get_ident()
        nested = me in self._freeing
        self._freeing.add(me)
        try:
            try:
                return call()
            except DiskFull:
                if nested or not self._begin():
                    raise
            try:
                return call()
            finally:
                self._end()
        finally:
            if not nested:
                self._freeing.discard(me)

    def free(self, call: Callable[[], T]) -> T:
        """`spend`, for calls that have freed space when they return: the reserve gets its length back from that."""
        done = self.spend(call)
        with self._changed:
            if not self._spenders:  # else the last of them makes it again
                full = not self.fill(_LEAST)
                self._short = self._short and full  # a disk that has become full without anybody's spending keeps nobody from writing
        return done

    @property
    def scarce(self) -> bool:
        """Whether a write of this thread, outside of `spend`, would take space from calls that free some."""
        return bool(self._spenders or self._short) and threading.get_ident() not in self._freeing

    def admit(self) -> None:
        """Return when a write may begin. Waits for calls that use the reserve, for a second at the most. Errors: `DiskFull`."""
        if not self.scarce:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._spenders, _PATIENCE)
            self._short = self._short and not self.fill(_LEAST)
            if self._short:
                raise DiskFull(
                    f"The disk of {self._path.parent} is full: what is left of it is kept for calls that free space; nothing was appended.",
                    hint="Free some space, then append again: reading goes on meanwhile. On a full disk work `headwater log delete-before` "
                    "and, for regions, `headwater wal mark` and `headwater wal clean`.",
                )

    def _begin(self) -> bool:
        """Give the reserve back, unless another thread has done so. Returns whether there is more room than before."""
        with self._changed:
            if not self._spenders and not self._give_back():
                return False
            self._spenders += 1
            return True

    def _end(self) -> None:
        with self._changed:
            self._spenders -= 1
            if not self._spenders:
                self._short = not self.fill(_LEAST)  # shorter, where the calls have taken some of it: the next one frees more
                self._changed.notify_all()

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
