"""Durable files. Every call that can lose data goes through a `Files`, so that tests can fail the Nth of them.

`Files` holds the calls that change the disk, and those that a failure test must see in order with them. Reads use plain `os` and `mmap`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

from headwater.core.errors import Damaged, DiskFull, HeadwaterError, ReadOnly, Unavailable, Unsupported

Bytes = bytes | bytearray | memoryview
FULL = (errno.ENOSPC, errno.EDQUOT)
TOO_MANY = (errno.EMFILE, errno.ENFILE)
FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


class Files:
    """The machine's file system. Every method raises `OSError` as the system gives it."""

    def open(self, path: Path, flags: int) -> int:
        """Open a file. Child programs do not inherit the descriptor."""
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pwritev(self, fd: int, parts: Sequence[Bytes], position: int) -> int:
        """Write as much as one system call takes; return the number of bytes."""
        return os.pwritev(fd, parts, position)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def datasync(self, fd: int) -> None:
        """Return once the file's bytes and its length are on disk."""
        os.fdatasync(fd)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def mkdir(self, path: Path) -> None:
        os.mkdir(path)

    def rmdir(self, path: Path) -> None:
        os.rmdir(path)

    def sync_dir(self, path: Path) -> None:
        """Return once the names in a directory are on disk."""
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sync(fd)
        finally:
            self.close(fd)


def write_all(files: Files, fd: int, parts: Sequence[Bytes], position: int) -> int:
    """Write every byte, however many calls the system needs; return the count."""
    total = sum(len(part) for part in parts)
    done = files.pwritev(fd, parts, position)
    if done < total:
        rest = memoryview(b"".join(parts))
        while done < total:
            done += files.pwritev(fd, [rest[done:]], position + done)
    return total


def replace(files: Files, path: Path, data: bytes) -> None:
    """Replace the content of `path` by `data`, atomically and durably: a crash leaves the old bytes or the new ones."""
    temporary = path.with_name(path.name + ".tmp")
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(files, fd, [data], 0)
        files.sync(fd)  # before the rename: otherwise a power cut can leave the new name with no bytes
    finally:
        files.close(fd)
    files.rename(temporary, path)
    files.sync_dir(path.parent)


def make_dirs(files: Files, path: Path) -> None:
    """`mkdir -p`, with every new name durable in its parent."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        try:
            files.mkdir(folder)
        except FileExistsError:
            continue  # another process was faster
        files.sync_dir(folder.parent)


class FileLock:
    """`flock` on a file of its own. The open descriptor holds it, so the system releases it when the process dies.

    A forked child shares the descriptor and its lock: it would keep the lock when the parent dies, and unlocking would unlock the parent.
    So a child closes all inherited descriptors at once, including those that other threads of the parent were opening.
    """

    def __init__(self, files: Files, path: Path, *, create: bool = True) -> None:
        self._files, self.fd = files, -1
        self.fd = files.open(path, (os.O_RDWR | os.O_CREAT) if create else os.O_RDONLY)
        _locks.add(self)

    def exclusive(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def try_exclusive(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def shared(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_SH)

    def release(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def is_at(self, path: Path) -> bool:
        """Whether the file that was opened is still the one at `path`: an unlinked one locks nobody out."""
        if self.fd < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        """Unlock, even where a child that was forked meanwhile shares the lock, and close. Closing twice is no error."""
        if self.fd >= 0:
            self.release()
            self.forget()

    def forget(self) -> None:
        """In a forked child: close the descriptor; the parent keeps its lock. Closing twice is no error."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        """Close a lock that nobody refers to any more: Ctrl-C can come just before the call of `close`."""
        self.close()


_locks: WeakSet[FileLock] = WeakSet()


def _forget_locks() -> None:
    for lock in list(_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_locks)


def boot_id() -> bytes:
    """16 bytes that differ after every start of the machine. They show whether shared memory is of this boot."""
    path = Path("/proc/sys/kernel/random/boot_id")
    try:
        return bytes.fromhex(path.read_text().strip().replace("-", ""))
    except OSError as error:
        raise Unsupported(
            f"{path} cannot be read ({error.strerror}).", hint="The embedded log needs Linux; use Kafka elsewhere."
        ) from error


def explained(error: OSError, path: Path | str, *, reading: bool = False) -> HeadwaterError:
    """The headwater error for an `OSError` on `path`. `reading`: the call changed nothing."""
    if error.errno in FULL and not reading:
        return DiskFull(
            f"No space left on the disk of {path}; nothing was appended.",
            hint="Free some space, then append again: reading goes on meanwhile. On a full disk work `headwater log delete-before` and, "
            "for regions, `headwater wal mark` and `headwater wal clean`.",
        )
    if error.errno in TOO_MANY:
        return Unavailable(
            f"{path} cannot be opened: this process or machine has too many open files.",
            hint="Raise the limit with `ulimit -n`, or close files, then try again.",
        )
    if error.errno in FORBIDDEN:
        if reading:
            return Unavailable(f"{path} cannot be read by this process ({error.strerror}).", hint="Change its permissions.")
        return ReadOnly(
            f"{path} cannot be written by this process ({error.strerror}).",
            hint="Change its permissions, or mount it for writing. What only reads works without that.",
        )
    if error.errno == errno.EISDIR:  # waiting does not help
        return Damaged(f"{error.filename or path} is a folder, and must be a file.", hint="Put the file back, or move the folder away.")
    if reading:
        return Unavailable(f"Reading {path} failed ({error.strerror}).", hint="Look at the machine's disk, then try again.")
    return Unavailable(
        f"Writing to {path} failed ({error.strerror}); nothing was appended.", hint="Look at the machine's disk, then try again."
    )


@contextmanager
def explaining(path: Path | str, *, reading: bool = False) -> Iterator[None]:
    """Raise an `OSError` inside as a headwater error (`explained`)."""
    try:
        yield
    except OSError as error:
        raise explained(error, path, reading=reading) from error
