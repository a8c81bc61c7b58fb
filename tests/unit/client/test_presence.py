from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headwater.client.presence import Presence, Serving, serving
from headwater.core.errors import Conflict, DiskFull, ReadOnly
from headwater.core.files import Files
from headwater.testing.faults import FailingFiles


class Instant:
    """A clock on which waiting takes no time."""

    def __init__(self) -> None:
        self.time = 0.0

    def now_ms(self) -> int:
        return int(self.time * 1000)

    def monotonic(self) -> float:
        return self.time

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.time += seconds
        return False


def presence(data: Path) -> Presence:
    return Presence(data, files=Files(), clock=Instant())


def test_nobody_serves_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert serving(tmp_path / "none") is None


def test_a_server_is_found_from_announcing_to_leaving(tmp_path: Path) -> None:
    mine = presence(tmp_path / "data")
    mine.take()
    assert serving(tmp_path / "data") is None
    mine.announce("http://127.0.0.1:1", pid=7, started="2026-01-31T12:00:00.000Z")
    assert serving(tmp_path / "data") == Serving("http://127.0.0.1:1", 7, "2026-01-31T12:00:00.000Z")
    mine.leave()
    mine.leave()
    assert serving(tmp_path / "data") is None
    assert not (tmp_path / "data" / "server.json").exists()


def test_a_second_server_is_told_who_was_first(tmp_path: Path) -> None:
    first = presence(tmp_path)
    first.take()
    first.announce("http://127.0.0.1:1", pid=7, started="2026-01-31T12:00:00.000Z")
    with pytest.raises(Conflict, match=r"http://127.0.0.1:1 \(process 7, since 2026-01-31T12:00:00.000Z\)"):
        presence(tmp_path).take()
    first.leave()
    presence(tmp_path).take()


def test_what_a_killed_server_left_is_not_taken_for_one(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from headwater.client.presence import Presence\n"
        "from headwater.core.clock import SystemClock\n"
        "from headwater.core.files import Files\n"
        "mine = Presence(pathlib.Path(sys.argv[1]), files=Files(), clock=SystemClock())\n"
        "mine.take(); mine.announce('http://127.0.0.1:1', pid=os.getpid(), started='s')\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        assert child.stdout.readline() == b"ready\n"
        found = serving(tmp_path)
        assert found is not None
        assert found.pid == child.pid
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
    assert (tmp_path / "server.json").exists()
    assert serving(tmp_path) is None
    mine = presence(tmp_path)
    mine.take()
    assert serving(tmp_path) is None, "the dead server's address must not become the new one's"
    mine.leave()


def test_words_that_cannot_be_read_are_no_server(tmp_path: Path) -> None:
    mine = presence(tmp_path)
    mine.take()
    (tmp_path / "server.json").write_text("{")
    assert serving(tmp_path) is None
    mine.leave()


class Refusing(Files):
    def open(self, path: Path, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ReadOnly):
        Presence(tmp_path, files=Refusing(), clock=Instant()).take()


def test_a_full_disk_is_told_as_what_it_is_for_a_server(tmp_path: Path) -> None:
    made = Presence(tmp_path, files=FailingFiles(1, number=errno.ENOSPC, only=("pwritev",)), clock=Instant())
    made.take()
    try:
        with pytest.raises(DiskFull, match="Nothing is served") as no:
            made.announce("http://127.0.0.1:1", pid=1, started="now")
        assert "append again" not in no.value.hint
        assert "delete-before" in no.value.hint
    finally:
        made.leave()
