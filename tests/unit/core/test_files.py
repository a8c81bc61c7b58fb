"""Durable files: all or nothing, whatever call fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headwater.core.errors import Damaged, DiskFull, ReadOnly, Unavailable
from headwater.core.files import FileLock, Files, explained, make_dirs, replace, write_all
from headwater.testing.faults import FailingFiles


def test_replacing_leaves_the_old_or_the_new_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace(Files(), path, b"old")
    for n in range(1, 10):
        files = FailingFiles(n)
        try:
            replace(files, path, b"new")
        except OSError:
            assert path.read_bytes() in (b"old", b"new")
            if path.read_bytes() == b"new":
                assert files.failed == ["sync"]  # the directory's: the bytes were synced before
                replace(Files(), path, b"old")
        else:
            assert not files.failed
            assert path.read_bytes() == b"new"
            assert n > 3
            return
    pytest.fail("never ran through")


def test_short_writes_are_finished(tmp_path: Path) -> None:
    class Short(Files):
        def pwritev(self, fd: int, parts: object, position: int) -> int:
            return os.pwrite(fd, b"".join(parts)[:3], position)  # type: ignore[arg-type]

    fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    assert write_all(Short(), fd, [b"hello ", bytearray(b"world")], 0) == 11
    assert (tmp_path / "f").read_bytes() == b"hello world"
    os.close(fd)


def test_directories_are_made_with_their_parents(tmp_path: Path) -> None:
    make_dirs(Files(), tmp_path / "a" / "b" / "c")
    make_dirs(Files(), tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_a_lock_is_held_by_its_descriptor(tmp_path: Path) -> None:
    one, other = FileLock(Files(), tmp_path / "lock"), FileLock(Files(), tmp_path / "lock")
    one.exclusive()
    assert not other.try_exclusive()
    one.forget()
    one.forget()
    assert other.try_exclusive()
    other.forget()


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        *((errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EROFS, ReadOnly), (errno.EACCES, ReadOnly)),
        *((errno.EIO, Unavailable), (errno.EISDIR, Damaged)),
    ],
)
def test_system_errors_become_sentences(number: int, kind: type[Exception]) -> None:
    error = explained(OSError(number, os.strerror(number)), "/somewhere")
    assert type(error) is kind
    assert "/somewhere" in str(error)
    assert error.hint
