"""The lock of a segment's file: readers share it for as long as they have the file open or mapped; who overwrites the file has it alone.

A truncated file kills whoever touches the part of a map that is cut off (SIGBUS), and an overwritten one turns records that a reader has
been given into zeros: columns of Arrow point into the map. So no file is changed below a reader. The lock (`flock`) belongs to the open
file description, which a map shares: the system releases it when the last map and the last descriptor are gone, and when the process dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from headwater.core.files import FileLock, Files


def open_shared(path: Path) -> int:
    """Open a segment for reading; nobody overwrites or truncates it while the descriptor, or a map of it, is there.

    Errors: `FileNotFoundError` also where the file has lost this name meanwhile: a drained segment gets another name before it is locked
    and changed, so whoever has the lock and then finds the name unchanged has come before all that.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            # Either the file is being disposed of, and then it has another name: waiting for that could be for ever, because a reader may
            # hold the partition's lock, which disposal needs. Or it has become a segment again, and who disposed of it is just dying.
            if _named(fd, path):
                fcntl.flock(fd, fcntl.LOCK_SH)
        if not _named(fd, path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BaseException:
        os.close(fd)
        raise
    return fd


def lock_alone(files: Files, path: Path) -> FileLock | None:
    """The lock of a file that nobody reads, until it is closed; None where somebody reads it, or where there is no such file.

    The caller has given the file a name that readers do not open. A forked child does not keep the lock.
    """
    try:
        lock = FileLock(files, path, create=False)
    except FileNotFoundError:
        return None
    if lock.try_exclusive() and _named(lock.fd, path):
        return lock
    lock.close()
    return None


def _named(fd: int, path: Path) -> bool:
    """Whether the path means the open file."""
    try:
        named, opened = os.stat(path), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (named.st_ino, named.st_dev) == (opened.st_ino, opened.st_dev)
