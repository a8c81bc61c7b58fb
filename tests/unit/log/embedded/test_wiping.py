"""Files that are overwritten before they go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.core.files import Files
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.segment_lock import open_shared
from headwater.log.embedded.wiping import discard, overwrite, wipe
from headwater.testing.faults import FailingFiles

SIZE = (3 << 20) + 17


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"x" * SIZE)
    return path


def test_every_byte_is_overwritten(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    overwrite(Files(), fd, SIZE)
    os.close(fd)
    assert path.read_bytes() == bytes(SIZE)


def test_a_wiped_file_is_gone_and_its_bytes_are_zeros(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    assert wipe(Files(), path)
    assert not path.exists()
    assert os.pread(fd, SIZE, 0) == bytes(SIZE)
    os.close(fd)
    assert wipe(Files(), path)  # nothing is left to do


def test_a_file_that_somebody_reads_stays(path: Path) -> None:
    fd = open_shared(path)
    assert not wipe(Files(), path)
    assert path.read_bytes() == b"x" * SIZE
    os.close(fd)
    assert wipe(Files(), path)


def test_bytes_that_have_another_name_go_with_that(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.hardlink_to(path)
    assert wipe(Files(), path)
    assert other.read_bytes() == b"x" * SIZE
    assert not path.exists()


@pytest.mark.parametrize("call", ["pwritev", "sync", "unlink"])
def test_a_file_that_the_disk_does_not_let_be_overwritten_stays(path: Path, call: str) -> None:
    assert not wipe(FailingFiles(1, only=(call,)), path)
    assert path.exists()
    assert wipe(Files(), path)


@pytest.mark.parametrize("secure", [False, True])
def test_both_files_of_a_segment_are_discarded(tmp_path: Path, secure: bool) -> None:
    segment = Segment(5, 2)
    kept = []
    for path in (segment.log(tmp_path), segment.pos(tmp_path)):
        path.write_bytes(b"x" * 100)
        kept.append(os.open(path, os.O_RDONLY))
    discard(Files(), tmp_path, [segment, Segment(7)], secure=secure)
    assert list(tmp_path.iterdir()) == []
    assert [os.pread(fd, 100, 0) for fd in kept] == [bytes(100) if secure else b"x" * 100] * 2
    for fd in kept:
        os.close(fd)
