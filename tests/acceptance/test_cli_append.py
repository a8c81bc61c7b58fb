"""`headwater log append` that a signal ends: it says what was appended, and what may have been."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import PROGRAM, Program, environment

from headwater.core.files import FileLock, Files
from headwater.log import Log
from headwater.log.address import LogAddress
from headwater.log.opening import open_log

SIGNALS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
PATIENCE = 60.0


@pytest.fixture
def headwater(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def log(headwater: Program) -> Iterator[Log]:
    with open_log(LogAddress(path=str(headwater.data))) as opened:
        opened.create_topic("t", partitions=2)
        yield opened


@contextlib.contextmanager
def appending(headwater: Program, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command, at work; its standard input stays open."""
    process = subprocess.Popen(
        [PROGRAM, "log", "append", "t", *words],
        cwd=headwater.home,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def send(process: subprocess.Popen[str], *lines: object) -> None:
    assert process.stdin is not None
    process.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines))
    process.stdin.flush()


def placed(process: subprocess.Popen[str], count: int) -> list[dict[str, Any]]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def problem(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stderr is not None
    found: dict[str, Any] = json.loads(process.stderr.read())
    return found


def values(log: Log, partition: int) -> list[bytes | None]:
    return [record.value for record in log.read("t", partition, 0)]


@pytest.mark.parametrize(("number", "code", "name"), SIGNALS)
def test_a_signal_between_two_lines_says_what_was_appended(headwater: Program, log: Log, number: int, code: int, name: str) -> None:
    with appending(headwater, "--format", "ndjson", "--json") as process:
        send(process, *({"key": f"k{n}", "value": str(n)} for n in range(6)))
        acknowledged = placed(process, 6)
        assert process.stdin is not None
        process.stdin.write('{"key": "k6", "val')  # half a line, which nobody has seen the end of
        process.stdin.flush()
        process.send_signal(number)
        assert process.wait(PATIENCE) == code
        told = problem(process)
    assert (told["code"], told["exitCode"]) == (name, code)
    last = {one["partition"]: one["offset"] for one in acknowledged}
    assert len(last) == 2
    assert "6 records appended" in told["detail"]
    assert all(f"t {partition} up to offset {offset}" in told["detail"] for partition, offset in last.items())
    assert "behind line 6" in told["hint"]
    assert len(values(log, 0)) + len(values(log, 1)) == 6


def test_without_json_the_summary_is_printed_as_ever(headwater: Program, log: Log) -> None:
    with appending(headwater, "--partition", "0") as process:
        send(process, "first")
        arrived(log, 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == "t 0: 1 record appended, offset 0\n"
        assert process.stderr.read() == (
            "headwater: Stopped by a signal. 1 record appended: t 0 up to offset 0.\n  Nothing behind line 1 was appended.\n"
        )


def test_a_signal_before_the_first_line_says_that_nothing_was_appended(headwater: Program, log: Log) -> None:
    with appending(headwater, "--partition", "0", "--json") as process:
        waits_for_input(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert "Nothing was appended" in problem(process)["detail"]
    assert log.bounds("t", 0).end == 0


@pytest.mark.parametrize(("number", "code", "name"), SIGNALS)
def test_a_signal_waits_for_the_append_under_way(headwater: Program, log: Log, number: int, code: int, name: str) -> None:
    with appending(headwater, "--partition", "0", "--json") as process, locked(headwater, process, log) as lock:
        process.send_signal(number)
        assert_runs(process)
        lock.close()
        assert process.wait(PATIENCE) == code
        assert placed(process, 1) == [{"partition": 0, "offset": 1}]
        assert "2 records appended: t 0 up to offset 1." in problem(process)["detail"]
    assert values(log, 0) == [b'"before"', b'"under way"']


def test_a_second_signal_ends_it_at_once_and_says_what_may_have_been_appended(headwater: Program, log: Log) -> None:
    with appending(headwater, "--partition", "0", "--json") as process, locked(headwater, process, log):
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)  # Python handles the one with the lower number first, however close they come
        assert process.wait(PATIENCE) == 130
        told = problem(process)
    assert "1 record appended: t 0 up to offset 0. Line 2 may or may not be appended." in told["detail"]
    assert "headwater log tail t" in told["hint"]
    assert values(log, 0)[0] == b'"before"'


@contextlib.contextmanager
def locked(headwater: Program, process: subprocess.Popen[str], log: Log) -> Iterator[FileLock]:
    """The command has appended one record, and waits for the partition's lock with a second: an append that does not end."""
    send(process, "before")
    placed(process, 1)
    lock = FileLock(Files(), headwater.data / "log" / "t" / "0" / "lock")
    lock.exclusive()
    try:
        send(process, "under way")
        until(lambda: _waits_for_lock(process.pid), "the command does not wait for the lock")
        yield lock
    finally:
        lock.close()


def _waits_for_lock(pid: int) -> bool:
    return any("->" in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())


def waits_for_input(process: subprocess.Popen[str]) -> None:
    """Until it reads standard input: its stdin is the pipe that is empty, and its main thread sleeps in a read of it."""
    until(lambda: Path(f"/proc/{process.pid}/syscall").read_text().startswith("0 0x0 "), "the command does not read its input")


def assert_runs(process: subprocess.Popen[str]) -> None:
    """The signal has been taken, and the command goes on."""
    until(lambda: not _pending(process.pid), "the signal was not taken")
    assert process.poll() is None


def _pending(pid: int) -> bool:
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return bool(int(lines["ShdPnd"], 16) or int(lines["SigPnd"], 16))


def arrived(log: Log, end: int) -> None:
    until(lambda: log.bounds("t", 0).end >= end, "the record did not arrive")


def until(condition: Any, problem: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, problem
        os.sched_yield()
