"""`headwater doctor`: what is found decides the exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from forked_program import ForkedProgram
from program import Program

CHECKS = ["python", "java", "sync", "space", "server"]


@pytest.fixture
def headwater(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path, forked_program)


def test_a_machine_that_will_do(headwater: Program) -> None:
    ran = headwater("doctor", "--json")
    assert [one["check"] for one in ran.json] == CHECKS
    assert all(one["said"] for one in ran.json)
    assert all(one["ok"] or one["todo"] for one in ran.json)
    fine = all(one["ok"] for one in ran.json)  # a test directory in memory is rightly found not to be a disk
    assert ran.code == (0 if fine else 6)
    assert {one["check"] for one in ran.json if not one["ok"]} <= {"sync", "space"}
    assert list(headwater.home.iterdir()) == []


def test_for_people_each_point_is_a_line(headwater: Program) -> None:
    ran = headwater("doctor")
    points = [line for line in ran.out.splitlines() if not line.startswith(" ")]
    assert [line[5:].split(":")[0] for line in points] == CHECKS
    assert {line[:3] for line in points} <= {"ok ", "BAD"}


def test_configured_servers_that_do_not_answer(headwater: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"127.0.0.1:{listener.getsockname()[1]}"
    ran = headwater(
        "doctor",
        "--json",
        HEADWATER_KAFKA__BOOTSTRAP=dead,
        HEADWATER_CASSANDRA__CONTACT_POINTS=dead,
        HEADWATER_SPARK__MASTER=f"spark://{dead}",
    )
    assert (ran.code, ran.problem["code"]) == (6, "unavailable")
    found = {one["check"]: one for one in ran.json}
    for check, setting in (
        (f"kafka {dead}", "kafka.bootstrap"),
        (f"cassandra {dead}", "cassandra.contact_points"),
        ("spark master", "spark.master"),
    ):
        assert not found[check]["ok"]
        assert setting in found[check]["todo"]


def test_a_java_home_without_java_is_passed_over_and_told(headwater: Program) -> None:
    ran = headwater("doctor", "--json", JAVA_HOME=str(headwater.home))
    [java] = [one for one in ran.json if one["check"] == "java"]
    assert java["ok"]
    assert "JAVA_HOME" in java["said"]


@pytest.mark.spark
def test_spark_starts_and_counts(headwater: Program) -> None:
    ran = headwater("doctor", "--spark", "--json", HEADWATER_SPARK__MASTER="local[1]")
    [spark] = [one for one in ran.json if one["check"] == "spark"]
    assert spark["ok"], spark
    assert spark["facts"]["version"].startswith("4.")
    assert list(headwater.home.iterdir()) == []


@pytest.mark.spark
def test_a_spark_that_cannot_start_is_a_finding(headwater: Program) -> None:
    ran = headwater("doctor", "--spark", "--json", HEADWATER_SPARK__MASTER="nonsense")
    assert ran.code == 6
    [spark] = [one for one in ran.json if one["check"] == "spark"]
    assert not spark["ok"]
    assert spark["todo"]
