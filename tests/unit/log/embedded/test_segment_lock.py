"""Files that somebody reads, and files that somebody changes: never the same at one time."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from headwater.core.files import Files
from headwater.log.embedded.segment_lock import lock_alone, open_shared


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 100)
    return path


def test_a_file_is_had_alone_when_the_last_descriptor_and_the_last_map_are_gone(path: Path) -> None:
    fd = open_shared(path)
    assert lock_alone(Files(), path) is None
    data = mmap.mmap(fd, 100, prot=mmap.PROT_READ)
    view = memoryview(data)[10:20]
    os.close(fd)
    assert lock_alone(Files(), path) is None  # the map holds the lock, too
    del data
    assert lock_alone(Files(), path) is None  # and so does what points into it
    del view
    lock = lock_alone(Files(), path)
    assert lock is not None
    lock.close()


def test_several_read_at_once(path: Path) -> None:
    first, second = open_shared(path), open_shared(path)
    os.close(first)
    assert lock_alone(Files(), path) is None
    os.close(second)
    lock = lock_alone(Files(), path)
    assert lock is not None
    assert lock_alone(Files(), path) is None
    lock.close()


def test_a_file_that_has_lost_its_name_is_not_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.open

    def open_then_renamed(name: Path, flags: int) -> int:
        fd = really(name, flags)
        os.rename(path, path.with_suffix(".spare"))  # between the opening and the lock
        path.write_bytes(b"another")
        return fd

    monkeypatch.setattr("headwater.log.embedded.segment_lock.os.open", open_then_renamed)
    with pytest.raises(FileNotFoundError) as gone:
        open_shared(path)
    assert gone.value.filename == str(path)
    monkeypatch.undo()
    lock = lock_alone(Files(), path.with_suffix(".spare"))  # and it holds no lock
    assert lock is not None
    lock.close()


def test_a_reader_does_not_wait_for_a_disposal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spare, really, locks = path.with_suffix(".spare"), os.open, []

    def open_then_disposed_of(name: Path, flags: int) -> int:
        fd = really(name, flags)
        os.rename(path, spare)
        monkeypatch.undo()
        locks.append(lock_alone(Files(), spare))
        return fd

    monkeypatch.setattr("headwater.log.embedded.segment_lock.os.open", open_then_disposed_of)
    with pytest.raises(FileNotFoundError):
        open_shared(path)
    [lock] = locks
    assert lock is not None
    lock.close()


def test_a_file_that_is_missing_is_not_locked(tmp_path: Path) -> None:
    assert lock_alone(Files(), tmp_path / "no") is None
    with pytest.raises(FileNotFoundError):
        open_shared(tmp_path / "no")
