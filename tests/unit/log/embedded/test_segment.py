"""An open segment: bytes and rows, room written ahead, and descriptors that stay as long as they are needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.files import Files
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.segment import OpenSegment, create
from headwater.testing.faults import FailingFiles


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OpenSegment]:
    create(Files(), tmp_path, Segment(0))
    made = OpenSegment(Files(), tmp_path, Segment(0), most=1 << 16)
    yield made
    made.close()


def test_a_batch_and_its_rows_are_where_they_belong(file: OpenSegment) -> None:
    file.write(bytearray(b"first"), b"\0\0\0\0", 0, 0)
    file.write(bytearray(b"second"), b"\5\0\0\0", 5, 1)
    raw = file.path.read_bytes()
    assert raw.rstrip(b"\0") == b"firstsecond"
    assert len(raw) > 1 << 14  # room for what comes next: a sync then has no length to write
    assert file.path.with_suffix(".pos").read_bytes() == b"\0\0\0\0\5\0\0\0"


def test_what_was_written_ahead_is_given_back(file: OpenSegment) -> None:
    file.write(bytearray(b"first"), b"\0\0\0\0", 0, 0)
    file.trim(5)
    assert file.path.read_bytes() == b"first"
    file.write(bytearray(b"second"), b"\5\0\0\0", 5, 1)
    file.truncate(5, 1)
    assert file.path.read_bytes() == b"first"
    assert file.path.with_suffix(".pos").stat().st_size == 4


def test_room_never_goes_beyond_the_segment_s_size(file: OpenSegment) -> None:
    file.write(bytearray((1 << 16) - 10), b"\0" * 4, 0, 0)
    assert file.path.stat().st_size == 1 << 16


def test_a_disk_without_room_costs_only_the_room(tmp_path: Path) -> None:
    create(Files(), tmp_path, Segment(0))
    file = OpenSegment(FailingFiles(1, only=("pwritev",), torn=0), tmp_path, Segment(0), most=1 << 16)
    file.write(bytearray(b"first"), b"\0" * 4, 0, 0)
    assert file.path.read_bytes() == b"first"
    file.close()


def test_bytes_that_are_to_be_written_again_must_be_there(file: OpenSegment) -> None:
    file.write(bytearray(b"first"), b"\0" * 4, 0, 0)
    file.trim(5)
    file.rewrite(0, 5)
    assert file.path.read_bytes() == b"first"
    with pytest.raises(OSError, match="4 bytes short"):
        file.rewrite(0, 9)


def test_a_retired_segment_stays_open_until_the_last_append_has_synced(file: OpenSegment) -> None:
    fd = file.fd
    file.pins.update((1, 2))
    file.retire()
    file.unpin(1)
    os.fstat(fd)
    file.unpin(2)
    assert file.fd == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_segment_that_a_dead_process_left_half_made_is_made_anew(tmp_path: Path) -> None:
    Segment(0).log(tmp_path).write_bytes(b"rest")
    create(Files(), tmp_path, Segment(0))
    assert [one.read_bytes() for one in sorted(tmp_path.iterdir())] == [b"", b""]
