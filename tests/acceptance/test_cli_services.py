"""The command line with real servers behind it: the log on Kafka, and doctor's questions answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_program import ForkedProgram
from program import Program

from headwater.core.ids import random_id
from headwater.log.address import LogAddress
from headwater.log.opening import open_log
from headwater.log.record import Record


@pytest.fixture
def headwater(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path, forked_program)


def test_the_log_commands_on_kafka(headwater: Program, kafka: str) -> None:
    where = {"HEADWATER_LOG__ENGINE": "kafka", "HEADWATER_KAFKA__BOOTSTRAP": kafka}
    topic = f"cli-{random_id()[:8]}"
    made = headwater("log", "create", topic, "--partitions", "2", "--json", **where)
    assert made.code == 0, made.err
    with open_log(LogAddress(engine="kafka", servers=kafka)) as log:
        log.append(topic, 1, [Record(key=b"k%d" % (n % 2), value=b"%d" % n, headers=(("h", b"x"),)) for n in range(5)])
    assert topic in [one["name"] for one in headwater("log", "topics", "--json", **where).json]
    shown = headwater("log", "show", topic, "1..3", "-p", "1", "--json", **where)
    assert [(one["offset"], one["value"], one["headers"]) for one in shown.lines] == [(n, str(n), [["h", "x"]]) for n in (1, 2, 3)]
    by_key = headwater("log", "show", topic, "--key", "k1", "--json", **where)
    assert [(one["partition"], one["offset"]) for one in by_key.lines] == [(1, 1), (1, 3)]
    assert [
        one["offset"] for one in headwater("log", "tail", topic, "-p", "1", "--from", "3", "--count", "2", "--json", **where).lines
    ] == [3, 4]
    stats = headwater("log", "stats", topic, "--json", **where).json
    assert [(one["start"], one["end"], one["bytes"]) for one in stats] == [(0, 0, None), (0, 5, None)]
    assert headwater("log", "stats", topic, **where).code == 0
    for words in (["compact", topic], ["repair", topic, "0", "--cut"], ["import", ".", "new"]):
        refused = headwater("log", *words, "--json", **where)
        assert (refused.code, refused.problem["code"]) == (5, "unsupported"), refused
    assert headwater("log", "delete-before", topic, "2", "-p", "1", "--yes", "--json", **where).json["start"] == 2
    assert headwater("log", "show", topic, "1", "-p", "1", "--json", **where).problem["code"] == "offset-gone"
    assert headwater("log", "delete-topic", topic, "--yes", "--json", **where).code == 0
    assert headwater("log", "show", topic, "--json", **where).code == 3
    assert [str(one.relative_to(headwater.data)) for one in headwater.data.rglob("*") if one.is_file()] == ["log/engine.json"]


def test_check_on_kafka_tells_where_others_have_written(headwater: Program, kafka: str) -> None:
    where = {"HEADWATER_LOG__ENGINE": "kafka", "HEADWATER_KAFKA__BOOTSTRAP": kafka}
    topic = f"cli-{random_id()[:8]}"
    assert headwater("log", "create", topic, **where).code == 0
    with open_log(LogAddress(engine="kafka", servers=kafka)) as log:
        writer = log.claim(topic, 0)
        writer.append([Record(b"k", b"v")])
        log.append(topic, 0, [Record(b"k", b"v")] * 2)  # as any other producer
        writer.append([Record(b"k", b"v")])
    (found,) = headwater("log", "check", topic, "--json", **where).json
    assert found == {
        "topic": topic,
        "partition": 0,
        "start": 0,
        "end": 5,
        "epoch": writer.epoch,
        "records": 5,
        "counted": 2,
        "claims": 1,
        "stale": 0,
        "foreign": 2,
        "stale_offsets": [],
        "foreign_offsets": [[2, 3]],
    }
    shown = headwater("log", "check", topic, **where)
    assert shown.code == 0
    assert "foreign 2..3" in shown.out


def test_doctor_finds_servers_that_answer(headwater: Program, kafka: str, cassandra: tuple[str, int], spark_master: str) -> None:
    host, port = cassandra
    ran = headwater(
        "doctor",
        "--json",
        HEADWATER_LOG__ENGINE="kafka",
        HEADWATER_KAFKA__BOOTSTRAP=kafka,
        HEADWATER_CASSANDRA__CONTACT_POINTS=f"{host}:{port}",
        HEADWATER_SPARK__MASTER=spark_master,
    )
    found = {one["check"]: one for one in ran.json}
    for check in (f"kafka {kafka}", f"cassandra {host}:{port}", "kafka client", "spark master"):
        assert found[check]["ok"], found[check]


def test_doctor_is_not_fooled_by_the_wrong_server(headwater: Program, kafka: str, cassandra: tuple[str, int]) -> None:
    """Kafka's address given as Cassandra's, and the other way round."""
    host, port = cassandra
    ran = headwater("doctor", "--json", HEADWATER_KAFKA__BOOTSTRAP=f"{host}:{port}", HEADWATER_CASSANDRA__CONTACT_POINTS=kafka)
    assert ran.code == 6
    found = {one["check"]: one for one in ran.json}
    assert not found[f"kafka {host}:{port}"]["ok"]
    assert not found[f"cassandra {kafka}"]["ok"]
