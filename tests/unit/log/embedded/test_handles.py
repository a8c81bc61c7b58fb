"""Which partitions make room for the next one, and when: before it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.descriptors import open_below

from headwater.core.files import Files
from headwater.log.embedded.handles import Handles
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.clock import ManualClock


@dataclass
class Open:
    name: int
    busy: bool = False


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def kept(clock: ManualClock, *handles: Open, most: int) -> Handles[Open]:
    found: Handles[Open] = Handles(clock=clock, most=most)
    for handle in handles:
        clock.advance(1)
        found.put(("t", handle.name), handle)
    return found


def test_the_least_recently_used_makes_room(clock: ManualClock) -> None:
    handles = kept(clock, Open(0), Open(1), Open(2), most=3)
    clock.advance(1)
    handles.touch(("t", 0))
    assert [one.name for one in handles.room()] == [1]
    assert handles.room() == []


def test_who_is_busy_stays_and_makes_room_when_it_is_not_any_more(clock: ManualClock) -> None:
    busy = [Open(number, busy=True) for number in range(5)]
    handles = kept(clock, *busy, most=2)
    assert handles.room() == []
    busy[3].busy = False
    assert [one.name for one in handles.room()] == [3]
    for one in busy:
        one.busy = False
    assert [one.name for one in handles.room()] == [0, 1, 2]
    assert len(handles) == 1


class Counting(Files):
    """The most files and folders below a folder that were open at once."""

    most = 0

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        self.most = max(self.most, open_below(self._folder))
        return fd


def test_room_is_made_before_the_next_partition_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.log.embedded.log.most_handles", lambda: 4)

    def most(partitions: int) -> int:
        files = Counting(tmp_path)
        with EmbeddedLog(tmp_path / str(partitions), files=files) as log:
            log.create_topic("t", partitions=partitions)
            for partition in range(partitions):
                log.append("t", partition, [Record(b"k", b"v")])
        return files.most

    assert most(12) <= most(4) + 1
