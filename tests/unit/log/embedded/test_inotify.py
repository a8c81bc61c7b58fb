"""What the kernel says of folders, and what it does not."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded.inotify import FolderEvents, Inotify

NOTHING = FolderEvents(set(), set(), False)


@pytest.fixture
def events() -> Iterator[Inotify]:
    opened = Inotify()
    yield opened
    opened.close()


def test_a_write_of_another_process_is_told_once(events: Inotify, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    number = events.add(tmp_path)
    assert events.read() == NOTHING
    subprocess.run([sys.executable, "-c", "open('file', 'ab').write(b'x')"], cwd=tmp_path, check=True)
    assert events.read() == FolderEvents({number}, set(), False)
    assert events.read() == NOTHING


def test_a_folder_has_one_number(events: Inotify, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert events.add(tmp_path) == events.add(tmp_path / "other" / "..")
    assert events.add(tmp_path) != events.add(tmp_path / "other")


def test_a_removed_folder_is_told_and_watched_no_longer(events: Inotify, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    number = events.add(folder)
    shutil.rmtree(folder)
    assert events.read() == FolderEvents({number}, {number}, False)
    folder.mkdir()
    (folder / "file").touch()
    assert events.read() == NOTHING
    assert events.add(folder) != number


def test_what_is_removed_is_told_no_more(events: Inotify, tmp_path: Path) -> None:
    number = events.add(tmp_path)
    events.remove(number)
    events.remove(number)
    (tmp_path / "file").touch()
    assert events.read() == FolderEvents(set(), {number}, False)


def test_more_than_the_kernel_keeps_is_an_overflow(events: Inotify, tmp_path: Path) -> None:
    events.add(tmp_path)
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with (tmp_path / "one").open("wb", buffering=0) as one, (tmp_path / "other").open("wb", buffering=0) as other:
        for _ in range(most // 2 + 1):
            one.write(b"x")
            other.write(b"x")
    assert events.read().overflow
    assert events.read() == NOTHING


@pytest.mark.parametrize(("name", "number"), [("nowhere", errno.ENOENT), ("file", errno.ENOTDIR)])
def test_what_is_no_folder_is_refused(events: Inotify, tmp_path: Path, name: str, number: int) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as refused:
        events.add(tmp_path / name)
    assert refused.value.errno == number
