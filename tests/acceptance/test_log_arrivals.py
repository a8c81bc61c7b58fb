"""Who waits for the embedded log is told of the records of other processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded.arrivals import EmbeddedArrivals
from headwater.log.embedded.inotify import Inotify
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.watcher import FolderWatcher
from headwater.log.record import TopicSettings
from headwater.testing.log_waiting import waited

APPEND = """
import sys
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
with EmbeddedLog(sys.argv[1]) as log:
    for line in sys.stdin:
        print(log.append("t", 0, [Record(b"k", line.encode())])[0], flush=True)
"""


class OtherProcess:
    """A process that appends a record for each call."""

    def __init__(self, data: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", APPEND, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def append(self) -> int:
        """Append one record; return its offset, once it is durable."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("record\n")
        return int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as opened:
        opened.create_topic("t", settings=TopicSettings(segment=200))  # rolls with each third record
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OtherProcess]:
    process = OtherProcess(tmp_path)
    yield process
    process.kill()


def watched_by(log: EmbeddedLog, watcher: FolderWatcher) -> None:
    log._arrivals = EmbeddedArrivals(log._opened_reader, lambda name: log.topic(name).generation, watcher=lambda: watcher)


def test_another_processes_records_are_told_through_rolls(log: EmbeddedLog, other: OtherProcess) -> None:
    arrived = threading.Event()
    with log.watch("t", 0, arrived.set) as watching:  # before there is any file of the partition
        for end in range(1, 21):
            assert other.append() == end - 1
            assert waited(watching, arrived, end - 1) == end


def test_a_record_is_told_after_its_writer_was_killed_and_another_process_has_recovered(log: EmbeddedLog, tmp_path: Path) -> None:
    arrived = threading.Event()
    with log.watch("t", 0, arrived.set) as watching:
        for end in range(1, 4):
            other = OtherProcess(tmp_path)
            other.append()
            assert waited(watching, arrived, end - 1) == end
            other.kill()


@pytest.mark.parametrize("failing", ["add", "init", "every descriptor"])
def test_without_the_kernels_help_others_records_are_found(
    log: EmbeddedLog, other: OtherProcess, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    class Failing(Inotify):
        def __init__(self) -> None:
            if failing != "add":
                fail()
            super().__init__()

        def add(self, folder: Path) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    if failing == "every descriptor":
        monkeypatch.setattr(os, "eventfd", fail)
    watched_by(log, FolderWatcher(events=Failing))
    arrived = threading.Event()
    with log.watch("t", 0, arrived.set) as watching:
        for end in range(1, 6):
            other.append()
            assert waited(watching, arrived, end - 1) == end
