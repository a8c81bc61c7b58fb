"""`headwater log tail`: live, until it is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_program import ForkedProgram
from program import Program

from headwater.log import Log
from headwater.log.address import LogAddress
from headwater.log.opening import open_log
from headwater.log.record import Record


@pytest.fixture
def headwater(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path, forked_program)


@pytest.fixture
def log(headwater: Program) -> Iterator[Log]:
    with open_log(LogAddress(path=str(headwater.data))) as opened:
        opened.create_topic("bank", partitions=2)
        opened.append("bank", 0, [Record(key=b"k", value=b"old %d" % n) for n in range(3)])
        yield opened


def line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def test_what_is_appended_appears(headwater: Program, log: Log) -> None:
    """Old records prove that it runs; then what comes from another process while it does."""
    process = headwater.start("log", "tail", "bank", "-p", "0", "--from", "1", "--json")
    assert [line(process)["value"] for _ in range(2)] == ["old 1", "old 2"]
    log.append("bank", 0, [Record(key=b"k", value=b"new")])
    new = line(process)
    assert (new["partition"], new["offset"], new["value"]) == (0, 3, "new")
    process.send_signal(signal.SIGINT)
    assert ended(process) == (0, "", "")


def test_sigterm_is_a_clean_stop(headwater: Program, log: Log) -> None:
    process = headwater.start("log", "tail", "bank", "-p", "0", "--from", "2", "--json")
    line(process)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, "", "")


def test_count_ends_it(headwater: Program, log: Log) -> None:
    ran = headwater("log", "tail", "bank", "-p", "0", "--from", "0", "--count", "2")
    assert ran.code == 0
    assert [row.split("  ")[-1] for row in ran.out.splitlines()] == ["old 0", "old 1"]


def test_every_partition_is_followed_from_its_end(headwater: Program, log: Log) -> None:
    process = headwater.start("log", "tail", "bank", "--count", "2", "--json")
    seen: list[dict[str, Any]] = []
    # It begins at the end, wherever that is when it looks: appending goes on until both have been seen.
    while process.poll() is None:
        for partition in (0, 1):
            log.append("bank", partition, [Record(key=None, value=b"%d" % partition)])
    code, out, err = ended(process)
    assert (code, err) == (0, "")
    seen = [json.loads(row) for row in out.splitlines()]
    assert len(seen) == 2
    assert all(one["value"] == str(one["partition"]) for one in seen)
