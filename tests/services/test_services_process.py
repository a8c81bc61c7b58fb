"""Processes are known by more than their number."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tools.services.process import Process, current, spawn

from headwater.core.errors import Unavailable

pytestmark = pytest.mark.service()  # no server is needed, but these belong to them


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    process = spawn(["sleep", "600"], env=os.environ, folder=tmp_path, log=tmp_path / "log")
    yield process
    process.send(signal.SIGKILL)
    assert process.wait_gone(60)


def test_it_runs_in_a_session_of_its_own_and_is_nobody_s_child(sleeper: Process) -> None:
    assert sleeper.alive()
    assert os.getsid(sleeper.pid) == sleeper.pid
    with pytest.raises(ChildProcessError):
        os.waitpid(sleeper.pid, os.WNOHANG)


@pytest.mark.parametrize("other", [{"began": 1}, {"boot": "another"}])
def test_a_recycled_id_is_never_touched(sleeper: Process, other: dict[str, object]) -> None:
    earlier = msgspec.structs.replace(sleeper, **other)
    assert not earlier.alive()
    assert earlier.wait_gone(0)
    earlier.send(signal.SIGKILL)
    assert not sleeper.wait_gone(0.05)


def test_a_signal_to_one_that_has_ended_does_nothing(sleeper: Process) -> None:
    sleeper.send(signal.SIGTERM)
    assert sleeper.wait_gone(60)
    sleeper.send(signal.SIGTERM)
    assert not sleeper.alive()


def test_a_zombie_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    handle = os.pidfd_open(child.pid)
    try:
        began = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        known = Process(child.pid, began, current().boot)
        assert known.alive()
        child.kill()
        assert select.select([handle], [], [], 60)[0], "it did not end"
        assert not known.alive()
        assert known.wait_gone(0)
    finally:
        os.close(handle)
        child.communicate()


def test_a_zombie_with_threads_that_have_not_ended_still_runs() -> None:
    """As a killed server one of whose threads waits for the disk: its first thread has ended, and its files are still locked."""
    last = "threading.Thread(target=lambda: (sys.stdin.readline(), os._exit(0))).start()"
    script = f"import ctypes, os, sys, threading; {last}; ctypes.CDLL(None).pthread_exit(None)"
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        stat = Path(f"/proc/{child.pid}/stat")
        while (fields := stat.read_text().rpartition(")")[2].split())[0] != "Z":
            assert child.poll() is None
        known = Process(child.pid, int(fields[19]), current().boot)
        assert known.alive()
        assert not known.wait_gone(0.05)
        child.communicate(b"\n")
        assert not known.alive()
    finally:
        child.kill()
        child.communicate()


def test_what_it_started_is_found_by_its_session(tmp_path: Path) -> None:
    parent = spawn(["sh", "-c", "sleep 600 & wait"], env=os.environ, folder=tmp_path, log=tmp_path / "log")
    try:
        while not (members := parent.session()):
            assert parent.alive()
        assert len(members) == 1
        parent.send(signal.SIGKILL)
        assert parent.wait_gone(60)
        assert members[0].alive()
    finally:
        for process in (*parent.session(), parent):
            process.send(signal.SIGKILL)
    assert members[0].wait_gone(60)


def test_whose_port_it_is(sleeper: Process) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert current().listens(port)
        assert not sleeper.listens(port)
    assert not current().listens(port)


def test_output_is_appended_to_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    process = spawn(["sh", "-c", "echo out; echo err >&2"], env=os.environ, folder=tmp_path, log=tmp_path / "log")
    assert process.wait_gone(60)
    assert (tmp_path / "log").read_text() == "before\nout\nerr\n"


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no-such-program"):
        spawn([str(tmp_path / "no-such-program")], env=os.environ, folder=tmp_path, log=tmp_path / "log")
