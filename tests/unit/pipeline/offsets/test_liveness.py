"""Whether a run is still there: by its process, and by the signs of life that it leaves in the offset log."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from headwater.core.errors import DiskFull
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.liveness import BEAT, PATIENCE, Heartbeat, life
from headwater.pipeline.offsets.state import Change, RunInfo
from headwater.testing.clock import ManualClock

HERE = socket.gethostname()
LATER = int(PATIENCE * 1000) + 1


def run(process: str, state: str = "running") -> RunInfo:
    return RunInfo(epoch=1, id="r", began=0, state=state, process=process)  # type: ignore[arg-type]


def test_a_run_lives_while_its_process_does() -> None:
    assert life(run(f"{HERE}:{os.getpid()}"), 0) == "running"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert life(run(f"{HERE}:{gone.pid}"), 0) == "gone"


def test_a_run_whose_process_is_dead_and_not_yet_reaped_does_not_live() -> None:
    killed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert life(run(f"{HERE}:{killed.pid}"), 0) == "running"
        killed.kill()
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # it is dead, and stays a zombie
        os.kill(killed.pid, 0)
        assert life(run(f"{HERE}:{killed.pid}"), 0) == "gone"
    finally:
        killed.communicate()


def test_a_run_with_threads_that_have_not_ended_lives() -> None:
    """As a killed one of which a thread waits for the disk: it may still write."""
    last = "threading.Thread(target=lambda: (sys.stdin.readline(), os._exit(0))).start()"
    script = f"import ctypes, os, sys, threading; {last}; ctypes.CDLL(None).pthread_exit(None)"
    ending = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        stat = Path(f"/proc/{ending.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            assert ending.poll() is None
        assert life(run(f"{HERE}:{ending.pid}"), 0) == "running"
    finally:
        ending.communicate(b"\n")


def test_a_run_that_has_ended_does_not_live() -> None:
    assert life(None, 0) == "gone"
    assert life(run(f"{HERE}:{os.getpid()}", "done"), 0) == "gone"


@pytest.mark.parametrize("process", ["elsewhere:1", "", f"{HERE}:{os.getpid()}"], ids=["elsewhere", "nowhere", "here"])
def test_a_run_that_gives_no_sign_of_life_is_doubted_wherever_it_is(process: str) -> None:
    assert life(run(process), LATER - 1) == "running"
    assert life(run(process), LATER) == "silent"  # on this machine, too: the number may be another process's by now


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def control(tmp_path: Path, clock: ManualClock) -> Iterator[Control]:
    with EmbeddedLog(tmp_path) as log:
        made = Control.create(log, "p", clock)
        made.change(lambda state: [("run", run("elsewhere:1"))])
        yield made


def sign(control: Control) -> int:
    found = control.refresh().run
    return found.beat if found is not None else 0


def test_a_run_gives_signs_of_life(control: Control, clock: ManualClock) -> None:
    with Heartbeat(control, 1, clock):
        for _ in range(2):
            clock.advance(BEAT)
            wait_until(lambda: sign(control) == clock.now_ms())
    clock.advance(BEAT)
    assert sign(control) == clock.now_ms() - BEAT * 1000  # it has ended


def test_a_disk_that_is_full_for_a_while_does_not_end_the_signs(
    control: Control, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def full(decide: object) -> None:
        tried.append(decide)
        raise DiskFull("No space is left.")

    with Heartbeat(control, 1, clock):
        with monkeypatch.context() as patched:
            patched.setattr(control, "change", full)
            clock.advance(BEAT)
            wait_until(lambda: bool(tried))
        clock.advance(BEAT)
        wait_until(lambda: sign(control) == clock.now_ms())


def test_a_run_that_a_newer_one_has_shut_out_gives_no_sign_in_its_name(
    control: Control, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer, tried = RunInfo(epoch=2, id="s", began=0, process="elsewhere:2"), threading.Event()
    control.change(lambda state: [("run", newer)])
    changing = control.change_run

    def noted(epoch: int, decide: Callable[[RunInfo], Sequence[Change]]) -> None:
        changing(epoch, decide)
        tried.set()

    monkeypatch.setattr(control, "change_run", noted)
    with Heartbeat(control, 1, clock):
        clock.advance(BEAT)
        assert tried.wait(60)
    assert control.refresh().run == newer


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)
