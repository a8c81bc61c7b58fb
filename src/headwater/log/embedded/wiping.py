"""Removes files: at once, or overwritten first."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headwater.core.files import Files, write_all
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.segment_lock import lock_alone

_STEP = 1 << 20
_ZEROS = memoryview(bytes(_STEP))


def overwrite(files: Files, fd: int, length: int) -> None:
    """Write zeros over the first `length` bytes, and sync them. Errors: `OSError`."""
    for at in range(0, length, _STEP):
        write_all(files, fd, [_ZEROS[: min(_STEP, length - at)]], at)
    files.sync(fd)


def overwrite_whole(files: Files, path: Path) -> None:
    """Overwrite a file, if this is its only name: bytes that have another one are kept on purpose, and go with that. Errors: `OSError`."""
    fd = files.open(path, os.O_RDWR)
    try:
        status = os.fstat(fd)
        if status.st_nlink == 1:
            overwrite(files, fd, status.st_size)
    finally:
        files.close(fd)


def wipe(files: Files, path: Path) -> bool:
    """Overwrite a file and remove it. False where that cannot be done now, and the file stays: somebody reads it, or the disk refuses."""
    lock = lock_alone(files, path)
    if lock is None:
        return not path.exists()
    try:
        overwrite_whole(files, path)
        files.unlink(path)
    except OSError:
        return False
    finally:
        lock.close()
    return True


def discard(files: Files, folder: Path, segments: Iterable[Segment], *, secure: bool = False) -> None:
    """Remove the files of segments that no manifest names. What cannot be removed now is removed at the next opening."""
    for segment in segments:
        for path in (segment.log(folder), segment.pos(folder)):
            if secure:
                wipe(files, path)
                continue
            with suppress(OSError):
                files.unlink(path)
