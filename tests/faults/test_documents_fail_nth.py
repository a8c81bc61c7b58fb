"""Documents on a disk that fails: at every call in turn, for once or for good, and in a process that is killed at every moment."""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from pathlib import Path

import msgspec
import pytest
from documents_story import Told, check, live

from headwater.testing.faults import DyingFiles, FailingFiles

EVERY = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 4


@pytest.mark.parametrize("forever", [False, True], ids=["once", "for-good"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_failing_call_loses_nothing_and_leaves_no_gap(tmp_path: Path, number: int, forever: bool) -> None:
    whole: list[Told] = []
    counting = FailingFiles()
    asyncio.run(live(tmp_path / "whole", counting, whole.append))
    assert {one.outcome for one in whole} == {"accepted"}
    assert counting.calls > 20
    for at in range(1, counting.calls + 1, EVERY):
        told: list[Told] = []
        folder = tmp_path / f"{at}"
        asyncio.run(live(folder, FailingFiles(at, number=number, forever=forever), told.append))
        asyncio.run(check(folder, told))


def test_a_process_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    """The child writes what it was told into a pipe."""
    counting = DyingFiles()
    asyncio.run(live(tmp_path / "whole", counting, lambda one: None))
    for at in range(1, counting.calls + 1, 2 * EVERY):
        folder = tmp_path / f"{at}"
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            asyncio.run(live(folder, DyingFiles(at), partial(_say, write)))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            told = [msgspec.json.decode(line, type=Told) for line in pipe.read().splitlines()]
        os.waitpid(child, 0)
        asyncio.run(check(folder, told, complete=False))


def _say(write: int, one: Told) -> None:
    os.write(write, msgspec.json.encode(one) + b"\n")
