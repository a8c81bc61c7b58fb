from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from headwater.core.files import Files
from headwater.wal.owned_regions import OwnedRegions
from headwater.wal.region_topics import RegionTopics

SEVEN, LAST = RegionTopics("wal", 7), RegionTopics("wal", 2**64 - 1)


def test_what_is_noted_is_told_until_it_is_removed(tmp_path: Path) -> None:
    notes, other = OwnedRegions(tmp_path / "owned"), OwnedRegions(tmp_path / "owned")
    assert notes.all() == []
    notes.remove(SEVEN)
    for topics in (LAST, SEVEN, RegionTopics("a.b-c", 0), SEVEN):
        notes.add(topics)
    assert other.all() == [RegionTopics("a.b-c", 0), SEVEN, LAST]
    other.remove(LAST)
    other.remove(LAST)
    for name in ("x", "7.tmp", "-1", str(2**64)):
        (tmp_path / "owned" / "wal" / name).touch()
    (tmp_path / "owned" / "notes.txt").touch()
    assert notes.all() == [RegionTopics("a.b-c", 0), SEVEN]


def test_without_a_folder_nothing_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notes = OwnedRegions()
    notes.add(SEVEN)
    notes.remove(SEVEN)
    assert (notes.all(), os.listdir(tmp_path)) == ([], [])


def test_what_cannot_be_noted_is_logged_and_fails_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Full(Files):
        def open(self, path: Path, flags: int) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def unlink(self, path: Path) -> None:
            raise OSError(errno.EIO, "Input/output error")

    with caplog.at_level(logging.WARNING, "headwater.wal"):
        notes = OwnedRegions(tmp_path / "owned", files=Full())
        notes.add(SEVEN)
        notes.remove(SEVEN)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "Region wal/7 was not noted, and a server that starts opens it with its first call",
        "The note of region wal/7 was not removed",
    ]
    assert notes.all() == []
