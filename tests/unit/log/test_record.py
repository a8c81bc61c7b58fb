"""Names, numbers and settings that the log takes, and those that it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.core.errors import BadBounds, BadInput
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Bounds, Record, TopicSettings, check_new_topic_name, check_topic_name


@pytest.mark.parametrize("name", ["a", "9", "A.b_c-d", "x" * 249, "orders", "lock.s", "locks"])
def test_fit_names(name: str) -> None:
    check_new_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".deleted-x", "_x", "-x", ".reserve", "lock", "engine.json", "engine.json.tmp", "a/b", "a b", "ä", "x" * 250]
)
def test_unfit_names(name: str) -> None:
    with pytest.raises(BadInput):
        check_new_topic_name(name)


def test_other_programs_topics_may_be_looked_at() -> None:
    check_topic_name("_schemas")


@pytest.mark.parametrize("name", [".deleted-x", "lock", "engine.json", "_x"])
def test_the_embedded_log_refuses_names_that_collide_with_its_own_files(tmp_path: Path, name: str) -> None:
    log = EmbeddedLog(tmp_path)
    log.create_topic("first")
    for call in (
        lambda: log.create_topic(name),
        lambda: log.topic(name),
        lambda: log.append(name, 0, [Record(b"k", b"v")]),
        lambda: log.read(name, 0, 0),
        lambda: log.delete_topic(name),
    ):
        with pytest.raises(BadInput):
            call()
    assert [topic.name for topic in log.topics()] == ["first"]


@pytest.mark.parametrize("name", ["segment", "period", "max_record"])
@pytest.mark.parametrize("value", [1e6, 1000.0, True, "1000", None])
def test_settings_that_could_not_be_read_again_are_refused(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=name):
        TopicSettings(**{name: value})


PARTITION_CALLS: dict[str, Callable[[EmbeddedLog, Any], object]] = {
    "append": lambda log, number: log.append("t", number, [Record(b"k", b"v")]),
    "append_arrow": lambda log, number: log.append_arrow("t", number, pa.RecordBatch.from_pydict({"key": [b"k"], "value": [b"v"]})),
    "claim": lambda log, number: log.claim("t", number),
    "writer": lambda log, number: log.writer("t", number, 0),
    "epoch": lambda log, number: log.epoch("t", number),
    "bounds": lambda log, number: log.bounds("t", number),
    "read": lambda log, number: log.read("t", number, 0),
    "read_at": lambda log, number: log.read_at("t", number, [0]),
    "scan": lambda log, number: log.scan("t", number, 0),
    "tail": lambda log, number: next(log.tail("t", number, 0, stopped=lambda: False)),
    "watch": lambda log, number: log.watch("t", number, lambda: None),
    "offset_at": lambda log, number: log.offset_at("t", number, 0),
    "delete_before": lambda log, number: log.delete_before("t", number, 1),
    "compact": lambda log, number: log.compact("t", number),
}
OFFSET_CALLS: dict[str, Callable[[EmbeddedLog, Any], object]] = {
    "read": lambda log, offset: log.read("t", 0, offset),
    "read_at": lambda log, offset: log.read_at("t", 0, [offset]),
    "scan": lambda log, offset: log.scan("t", 0, offset),
    "scan to": lambda log, offset: log.scan("t", 0, 0, offset),
    "tail": lambda log, offset: next(log.tail("t", 0, offset, stopped=lambda: False)),
    "delete_before": lambda log, offset: log.delete_before("t", 0, offset),
    "compact": lambda log, offset: log.compact("t", 0, offset),
    "limit": lambda log, limit: log.read("t", 0, 0, limit=limit),
    "offset_at": lambda log, timestamp: log.offset_at("t", 0, timestamp),
    "epoch": lambda log, epoch: log.writer("t", 0, epoch),
}


def filled(data: Path) -> EmbeddedLog:
    log = EmbeddedLog(data)
    log.create_topic("t", partitions=2)
    log.append("t", 0, [Record(b"k", b"1"), Record(b"k", b"2")])
    return log


@pytest.fixture(scope="module")
def in_use(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLog]:
    """A log with two records whose partition is open: what is open is found by its number. Every test finds it as it was."""
    with filled(tmp_path_factory.mktemp("in-use")) as log:
        log.read("t", 0, 0)
        yield log


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a log with two records. Every test finds them as they were."""
    filled(data := tmp_path_factory.mktemp("closed")).close()
    return data


@pytest.fixture(params=["fresh", "in use"])
def log(request: pytest.FixtureRequest, in_use: EmbeddedLog, closed: Path) -> Iterator[EmbeddedLog]:
    """A log with two records that refuses what a test asks: one that has just been opened, and one whose partition is open."""
    if request.param == "in use":
        yield in_use
    else:
        with EmbeddedLog(closed) as log:
            yield log
    assert [record.value for record in in_use.read("t", 0, 0)] == [b"1", b"2"]
    assert in_use.bounds("t", 1).end == 0


@pytest.mark.parametrize("number", [0.0, 1.0, True, False, "0", None, [0]])
@pytest.mark.parametrize("call", PARTITION_CALLS)
def test_a_partition_is_a_whole_number(log: EmbeddedLog, call: str, number: Any) -> None:
    with pytest.raises(BadInput, match="is no partition") as refused:
        PARTITION_CALLS[call](log, number)
    assert "whole number" in refused.value.hint
    assert [log.bounds("t", partition).end for partition in (0, 1)] == [2, 0]


@pytest.mark.parametrize("number", [0.0, 1.0, True, "0", [0]])
@pytest.mark.parametrize("call", OFFSET_CALLS)
def test_an_offset_is_a_whole_number(log: EmbeddedLog, call: str, number: Any) -> None:
    with pytest.raises(BadInput, match=r"is no (offset|limit|timestamp|epoch)\.|are no offsets"):
        OFFSET_CALLS[call](log, number)
    assert log.bounds("t", 0) == Bounds(0, 2)


@pytest.mark.parametrize("topic", [0, None, b"t", ["t"]])
def test_a_topic_is_text(log: EmbeddedLog, topic: Any) -> None:
    for call in (lambda: log.append(topic, 0, [Record(b"k", b"v")]), lambda: log.bounds(topic, 0), lambda: log.claim(topic, 0)):
        with pytest.raises(BadInput, match="name is text"):
            call()


@pytest.mark.parametrize("again", [True, False], ids=["fresh", "in use"])
def test_numbers_of_numpy_are_whole_numbers(tmp_path: Path, again: bool) -> None:
    log, zero = filled(tmp_path), np.int64(0)
    if again:
        log.close()
        log = EmbeddedLog(tmp_path)
    with log:
        assert log.append("t", zero, [Record(b"k", b"3")]) == range(2, 3)
        assert [record.value for record in log.read("t", zero, zero + 1)] == [b"2", b"3"]
        assert log.read_at("t", zero, np.array([2, 0])) == [log.read("t", 0, 2)[0], log.read("t", 0, 0)[0]]


@pytest.mark.parametrize("timestamp", [np.True_, 2**63, -1, 1.5, "now"])
@pytest.mark.parametrize("count", [1, 2, 200])
def test_what_is_no_time_is_refused(log: EmbeddedLog, timestamp: Any, count: int) -> None:
    with pytest.raises(BadInput):
        log.append("t", 0, [Record(b"k", b"v", timestamp=timestamp)] * count)
    assert log.bounds("t", 0).end == 2


def test_a_scan_without_rows_is_refused(log: EmbeddedLog) -> None:
    with pytest.raises(BadBounds, match="0 rows"):
        log.scan("t", 0, 0, batch=0)
