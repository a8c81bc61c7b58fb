"""Owners that die and disks that fail while a partition is being owned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stopping import stop_outside

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Fenced, HeadwaterError, NotOwner
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.faults import DyingFiles, FailingFiles
from headwater.testing.log_ground import numbered

OWNER = """
import os, sys
from pathlib import Path
from headwater.cluster.local import LocalOwnership
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog

log = EmbeddedLog(Path(sys.argv[1]))
owned = LocalOwnership(log, Path(sys.argv[1]) / "owners", address="http://other:1").own("t", 0)
number = 0
while True:
    owned.writer.append([Record(b"other", b"%d" % number)])
    print(number, flush=True)
    number += 1
    sys.stdin.readline()
"""


def other(data: Path) -> subprocess.Popen[str]:
    """A process that owns t/0, writes a record for each line that it gets, and says its number."""
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def step(process: subprocess.Popen[str]) -> str:
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


def test_a_killed_owners_partition_is_owned_at_once_and_a_living_ones_not(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t")
        process = other(tmp_path / "data")
        assert process.stdout
        assert process.stdout.readline() == "0\n"
        with LocalOwnership(log, tmp_path / "data" / "owners") as here:
            with pytest.raises(NotOwner, match=f"process {process.pid} on .* http://other:1"):
                here.own("t", 0)
            assert step(process) == "1\n"
            process.send_signal(signal.SIGSTOP)  # one that stands still lives
            with pytest.raises(NotOwner):
                here.own("t", 0)
            process.kill()
            process.wait()
            here.own("t", 0).writer.append(numbered(1))
        assert [record.value for record in log.read("t", 0, 0)] == [b"0", b"1", b"value-0"]


def test_a_stopped_owner_that_goes_on_after_a_take_over_is_fenced(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t")
        process = other(tmp_path / "data")
        assert process.stdout
        assert process.stdout.readline() == "0\n"
        stop_outside(process.pid, tmp_path / "data" / "log" / "t" / "0" / "lock")  # which a thread of it takes each second
        with LocalOwnership(log, tmp_path / "data" / "owners", address="http://here:2") as here:
            owned = here.own("t", 0, take_over=True)
            owned.writer.append([Record(b"here", b"x")])
            process.send_signal(signal.SIGCONT)
            out, errors = process.communicate("\n", timeout=120)
            assert (out, "Fenced" in errors, process.returncode) == ("", True, 1)
            owned.writer.append([Record(b"here", b"y")])  # the other's death releases nothing of ours
            assert not owned.lost
        assert [record.value for record in log.read("t", 0, 0)] == [b"0", b"x", b"y"]


@pytest.mark.parametrize("take_over", [False, True])
def test_whichever_call_fails_while_owning_the_next_one_owns(tmp_path: Path, take_over: bool) -> None:
    """And nobody who was told that it owns the partition has lost it without being fenced."""
    number = 0
    while True:
        number += 1
        files = FailingFiles(number)
        with EmbeddedLog(tmp_path / f"{number}") as log:
            log.create_topic("t")
            folder = tmp_path / f"{number}" / "owners"
            with LocalOwnership(log, folder) as one, LocalOwnership(log, folder, files=files) as two, LocalOwnership(log, folder) as three:
                first = one.own("t", 0) if take_over else None
                try:
                    owned = two.own("t", 0, take_over=take_over)
                except HeadwaterError:
                    if first is not None:
                        try:
                            first.writer.append(numbered(1))
                        except Fenced:
                            first.release()
                    three.own("t", 0, take_over=take_over).writer.append(numbered(1))
                else:
                    owned.writer.append(numbered(1))
                    with pytest.raises(NotOwner):
                        three.own("t", 0)
        if not files.failed:
            break
    assert number > 4


@pytest.mark.parametrize("take_over", [False, True])
def test_whenever_a_process_dies_while_owning_the_next_one_owns_at_once(tmp_path: Path, take_over: bool) -> None:
    number, code = 0, -9
    while code:
        number += 1
        data = tmp_path / f"{number}"
        with EmbeddedLog(data) as log:
            log.create_topic("t")
            with LocalOwnership(log, data / "owners") as one, LocalOwnership(log, data / "owners") as three:
                first = one.own("t", 0)
                if not take_over:
                    first.release()
                child = os.fork()
                if child == 0:
                    with EmbeddedLog(data) as mine:
                        LocalOwnership(mine, data / "owners", files=DyingFiles(number)).own("t", 0, take_over=take_over)
                        os._exit(0)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                assert code in (0, -9)
                if take_over:
                    try:
                        first.writer.append(numbered(1))
                        assert code, "a take-over that ended has fenced the first"
                    except Fenced:
                        first.release()
                        one.own("t", 0).writer.append(numbered(1))
                else:
                    three.own("t", 0).writer.append(numbered(1))
    assert number > 10
