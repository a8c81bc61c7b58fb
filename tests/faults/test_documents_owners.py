"""Owners of documents that are killed and stopped: nothing acknowledged is lost, nothing is written twice, no revision is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from documents_story import Told, check, documents_at, write_one, written_numbers
from tests.stopping import stop_outside

from headwater.core.errors import NotOwner
from headwater.documents.path import parse_path
from headwater.documents.table import TOPIC
from headwater.documents.write import Draft

pytestmark = pytest.mark.anyio
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "4"))
WORKER = Path(__file__).with_name("documents_worker.py")


def worker(folder: Path, first: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(WORKER), str(folder), str(first)], stdout=subprocess.PIPE)


def heard(process: subprocess.Popen[bytes], count: int) -> list[Told]:
    """The next answers of a worker; fewer where it has ended."""
    assert process.stdout is not None
    lines = [line for _ in range(count) if (line := process.stdout.readline()).endswith(b"\n")]
    return [msgspec.json.decode(line, type=Told) for line in lines]


def heard_until_refused(process: subprocess.Popen[bytes], most: int) -> list[Told]:
    answers: list[Told] = []
    for _ in range(most):
        answers += heard(process, 1)
        if answers and answers[-1].outcome == "refused":
            break
    return answers


def rest(process: subprocess.Popen[bytes]) -> list[Told]:
    assert process.stdout is not None
    with process.stdout as pipe:
        lines = pipe.read().split(b"\n")[:-1]
    process.wait()
    return [msgspec.json.decode(line, type=Told) for line in lines]


async def test_a_killed_owner_loses_nothing(tmp_path: Path) -> None:
    told: list[Told] = []
    for round in range(ROUNDS):
        process = worker(tmp_path, round * 1_000_000 + 10_000)
        try:
            answers = heard(process, 40 + 77 * round)
            assert {one.outcome for one in answers} == {"accepted"}
        finally:
            process.kill()
        told += answers + rest(process)
        async with documents_at(tmp_path) as documents:  # the next owner comes at once
            await write_one(documents, 9500 + round, told.append)
    await check(tmp_path, told, complete=False)


async def test_a_stopped_owner_is_taken_over_and_finds_out(tmp_path: Path) -> None:
    process = worker(tmp_path, 10_000)
    try:
        told = heard(process, 30)
        async with documents_at(tmp_path) as documents:
            with pytest.raises(NotOwner):
                await documents.write(Draft(path=parse_path("a"), verb="put", body=b"{}"))
            stop_outside(process.pid, tmp_path / "documents" / "0.db.lock", tmp_path / "log" / TOPIC / "0" / "lock")
            with pytest.raises(NotOwner):  # stopped is not dead
                await documents.write(Draft(path=parse_path("a"), verb="put", body=b"{}"))
            await documents.activate(0, take_over=True)
            for number in range(100, 112):
                await write_one(documents, number, told.append)
            assert {one.outcome for one in told} == {"accepted"}
            process.send_signal(signal.SIGCONT)
            after = heard_until_refused(process, 20_000)  # the pipe may hold a thousand answers of before
            assert after[-1].outcome == "refused"
            for number in range(112, 120):
                await write_one(documents, number, told.append)
            numbers = written_numbers(documents)
            assert all(one.number in numbers[one.uri] for one in told)
            told += after
    finally:
        process.kill()
    told += rest(process)
    await check(tmp_path, told, complete=False)
