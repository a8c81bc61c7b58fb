"""Linux's inotify through the C library: the kernel's reports of changes in folders."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import NamedTuple

_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_READ = 1 << 16
_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x2, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_OVERFLOW, _IGNORED, _ONLY_FOLDERS = 0x4000, 0x8000, 0x0100_0000
_MASK = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS


class FolderEvents(NamedTuple):
    """The kernel's reports since the last read: the changed folders, and those no longer watched."""

    changed: set[int]
    ended: set[int]
    overflow: bool  # the kernel's queue overflowed: anything may have changed


class Inotify:
    """One descriptor for any number of folders. The kernel reports writes of all processes of this machine, but no stores into mapped
    files.

    Errors: `OSError` where the kernel gives none (128 for each user, unless set otherwise), or has no such thing.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._libc.inotify_init1.argtypes = [ctypes.c_int]
            self._libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
            self._libc.inotify_rm_watch.argtypes = [ctypes.c_int, ctypes.c_int]
        except AttributeError as missing:
            raise OSError(str(missing)) from None
        self.fd = self._called(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, folder: Path) -> int:
        """Watch a folder; return the number of its reports. The same folder has the same number. Errors: `OSError`."""
        return self._called(self._libc.inotify_add_watch(self.fd, os.fsencode(folder), _MASK))

    def remove(self, watch: int) -> None:
        """Stop watching. Also allowed for a watch that has ended by itself."""
        self._libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> FolderEvents:
        """All reports since the last read, without waiting."""
        heard = FolderEvents(set(), set(), False)
        while True:
            try:
                raw = os.read(self.fd, _READ)
            except BlockingIOError:
                return heard
            at = 0
            while at < len(raw):
                watch, mask, _, length = _EVENT.unpack_from(raw, at)
                at += _EVENT.size + length
                if mask & _OVERFLOW:
                    heard = heard._replace(overflow=True)
                elif mask & _IGNORED:
                    heard.ended.add(watch)
                else:
                    heard.changed.add(watch)
            if len(raw) < _READ // 2:
                return heard

    def close(self) -> None:
        os.close(self.fd)

    @staticmethod
    def _called(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
