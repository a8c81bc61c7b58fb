from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path

import pytest
from tests.until import until

from headwater.cli import doctor_machine
from headwater.cli.doctor_machine import TOO_FAST, file_system, judged, nearest_folder
from headwater.cli.finding import Finding
from headwater.core.settings import SparkSettings

MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
srv:/x /mnt/far nfs4 rw 0 0
/dev/vdb /mnt/far\\040away xfs rw 0 0
/dev/vdc /mnt ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/dev/shm", "tmpfs"),
        ("/dev/shmuck", "ext4"),
        ("/mnt/far/data", "nfs4"),
        ("/mnt/far away/data", "xfs"),
        ("/mnt/faraway", "ext4"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system(Path(folder), MOUNTS) == kind


@pytest.mark.parametrize(
    ("kind", "seconds", "ok", "says"),
    [
        ("ext4", 0.0002, True, "can be a real disk"),
        ("ext4", 0.05, True, "slow"),
        ("ext4", TOO_FAST / 2, False, "No real disk is that fast"),
        ("tmpfs", 0.0002, False, "memory"),
        ("nfs4", 0.002, False, "network"),
    ],
)
def test_what_sync_times_mean(kind: str, seconds: float, ok: bool, says: str) -> None:
    finding = judged(Finding("sync", True, "200 writes."), kind, seconds)
    assert finding.ok is ok
    assert says in finding.said
    assert bool(finding.todo) is (not ok or "slow" in says)


def test_the_sync_check_measures_and_leaves_nothing(tmp_path: Path) -> None:
    finding = doctor_machine.sync(tmp_path / "not" / "there")
    assert list(tmp_path.iterdir()) == []
    assert finding.facts["folder"] == str(tmp_path)
    assert finding.facts["writes"] == 200
    assert finding.facts["p50_seconds"] > 0


def test_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert nearest_folder(tmp_path) == tmp_path
    assert nearest_folder(tmp_path / "a" / "b") == tmp_path
    assert nearest_folder(tmp_path / "file" / "b") == tmp_path


def test_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = doctor_machine.space(tmp_path)
    assert finding.facts["total"] >= finding.facts["free"]
    monkeypatch.setattr(doctor_machine, "LEAST_FREE", finding.facts["total"] + 1)
    full = doctor_machine.space(tmp_path)
    assert not full.ok
    assert full.todo


def test_python_and_java_are_found() -> None:
    assert doctor_machine.python().facts["version"].startswith("3.")
    assert doctor_machine.java().facts["version"] >= 17


def test_a_directory_without_a_server(tmp_path: Path) -> None:
    assert doctor_machine.server(tmp_path).facts == {"url": None}


# -- Spark in a process of its own: what is not an answer -------------------------------------------------------


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a program in the place of the Python that doctor starts."""

    def program(text: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
        path.chmod(0o755)
        monkeypatch.setattr(doctor_machine.sys, "executable", str(path))

    return program


def test_spark_that_never_answers_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {tmp_path}/child; wait\n")  # it starts at once, Python does not
    program.chmod(0o755)
    monkeypatch.setattr(doctor_machine.sys, "executable", str(program))
    finding = doctor_machine.spark(SparkSettings(), seconds=1)
    assert not finding.ok
    assert "no answer within 1 seconds" in finding.said
    stat = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")

    def ended() -> bool:
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    asyncio.run(until(ended))


def test_spark_that_dies_is_told_by_its_last_words(probe) -> None:
    probe("import sys; sys.exit('first\\nno memory left')")
    finding = doctor_machine.spark(SparkSettings())
    assert not finding.ok
    assert "no memory left" in finding.said


def test_a_problem_of_spark_comes_with_its_hint(probe) -> None:
    probe("""print('noise'); print('{"problem": "Spark did not start.", "hint": "See the log."}')""")
    finding = doctor_machine.spark(SparkSettings())
    assert (finding.ok, finding.said, finding.todo) == (False, "Spark did not start.", "See the log.")


def test_settings_reach_the_probe_unseen(probe, tmp_path: Path) -> None:
    """They go through the pipe, secrets included, and never onto the command line."""
    probe("""
        import pickle, sys
        settings = pickle.loads(sys.stdin.buffer.read())
        assert settings.conf["my.secret"] == "hunter2"
        assert not any("hunter2" in word for word in sys.argv)
        print('{"version": "4"}')
    """)
    from headwater.core.settings import Passed

    finding = doctor_machine.spark(SparkSettings(conf=Passed({"my.secret": "hunter2"})))
    assert finding.ok, finding
