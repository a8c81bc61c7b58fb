"""Guards on the embedded engine: what is not durable yet is shown, and nobody is refused for what is lost afterwards."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headwater.core.errors import Conflict, DiskFull, Fenced, OutcomeUnknown, Unavailable
from headwater.core.metrics import LogMetrics
from headwater.log import Guard, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.encoding import encode
from headwater.log.record import Bounds, TopicSettings
from headwater.testing.faults import FailingFiles


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        log.append("t", 0, [record("first")])
        yield log


def record(text: str) -> Record:
    return Record(b"k", text.encode(), timestamp=1)


class Refusing:
    """A check that refuses, and notes what it was shown and how far the partition was durable then."""

    def __init__(self, log: EmbeddedLog) -> None:
        self.log = log
        self.shown: list[bytes | None] = []
        self.durable = -1

    def __call__(self, records: Sequence[Record]) -> None:
        self.shown = [record.value for record in records]
        self.durable = self.log.bounds("t", 0).end
        raise Conflict("refused")


def test_a_refusal_is_answered_once_what_it_was_shown_is_durable(log: EmbeddedLog, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as other:
        ticket = other.partition("t", 0).write(encode([record("under way")], now=1))  # another's append, before its sync
        check = Refusing(log)
        with pytest.raises(Conflict, match="refused"):
            log.append("t", 0, [record("mine")], guard=Guard(1, check))
        assert check.shown == [b"under way"]
        assert check.durable == 1
        assert log.bounds("t", 0) == Bounds(0, 2)
        other.partition("t", 0).finish(ticket)
        assert [one.value for one in log.read("t", 0, 0)] == [b"first", b"under way"]


@pytest.mark.parametrize("whose", ["own", "another's"])
def test_whoever_would_be_refused_for_what_cannot_be_made_durable_is_told_so(log: EmbeddedLog, tmp_path: Path, whose: str) -> None:
    files = FailingFiles(only=("datasync",))
    with EmbeddedLog(tmp_path, files=files) as failing, EmbeddedLog(tmp_path, files=FailingFiles(1, only=("datasync",))) as other:
        failing.append("t", 0, [record("second")])
        partition = other.partition("t", 0)
        ticket = partition.write(encode([record("lost")], now=1))
        check = Refusing(failing)

        def sync_fails(records: Sequence[Record]) -> None:
            if whose == "own":
                files.fail_at = files.calls + 1
            check(records)

        if whose == "own":
            with pytest.raises(Unavailable, match="Nothing was appended") as raised:
                failing.append("t", 0, [record("mine")], guard=Guard(2, sync_fails))
            assert not isinstance(raised.value, OutcomeUnknown)
            with pytest.raises(OutcomeUnknown):
                partition.finish(ticket)
        else:
            with pytest.raises(OutcomeUnknown):
                partition.finish(ticket)
            check.shown = [b"not asked"]
            failing.append("t", 0, [record("mine")], guard=Guard(2, lambda records: check.shown.clear()))
        assert check.shown == ([b"lost"] if whose == "own" else [])
        values = [one.value for one in failing.read("t", 0, 0)]
        assert values == [b"first", b"second", *([] if whose == "own" else [b"mine"])]
        log.append("t", 0, [record("goes on")])


def test_a_guard_with_a_generation_is_fenced_in_a_topic_that_was_created_again(log: EmbeddedLog, tmp_path: Path) -> None:
    """It has exactly as many records as the caller read, so the guard's check would not even be asked about them."""
    generation = log.topic("t").generation
    with EmbeddedLog(tmp_path) as other:
        other.delete_topic("t")
        other.create_topic("t")
        other.append("t", 0, [record("of the new topic")])
    check = Refusing(log)
    with pytest.raises(Fenced, match="created again"):
        log.append("t", 0, [record("mine")], guard=Guard(1, check, generation))
    assert [one.value for one in log.read("t", 0, 0)] == [b"of the new topic"]
    assert check.durable == -1
    log.append("t", 0, [record("mine")], guard=Guard(1, lambda records: None, log.topic("t").generation))


def test_a_guard_sees_across_segments(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", settings=TopicSettings(segment=100))
        for number in range(10):
            log.append("t", 0, [record(str(number))])
        check = Refusing(log)
        with pytest.raises(Conflict):
            log.append("t", 0, [record("mine")], guard=Guard(3, check))
        assert check.shown == [b"%d" % number for number in range(3, 10)]


def test_a_guard_that_appends_to_its_own_partition_is_stopped(log: EmbeddedLog) -> None:
    def append(records: Sequence[Record]) -> None:
        log.append("t", 0, [record("inner")])

    with pytest.raises(Unavailable, match="this very thread"):
        log.append("t", 0, [record("outer")], guard=Guard(1, append))
    assert [one.value for one in log.read("t", 0, 0)] == [b"first"]
    log.append("t", 0, [record("next")])


def test_ctrl_c_in_a_guard_leaves_nothing_taken(log: EmbeddedLog, tmp_path: Path) -> None:
    def interrupted(records: Sequence[Record]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log.append("t", 0, [record("mine")], guard=Guard(1, interrupted))
    with EmbeddedLog(tmp_path) as other:
        other.append("t", 0, [record("other")])
    assert list(log.append("t", 0, [record("next")])) == [2]


def test_a_guard_may_read_while_it_decides(log: EmbeddedLog) -> None:
    seen: list[bytes | None] = []
    log.append("t", 0, [record("mine")], guard=Guard(1, lambda _: seen.extend(one.value for one in log.read("t", 0, 0))))
    assert seen == [b"first"]


def test_a_full_disk_behind_a_guard_that_lets_pass(log: EmbeddedLog, tmp_path: Path) -> None:
    files = FailingFiles(number=errno.ENOSPC, only=("pwritev",))
    with EmbeddedLog(tmp_path, files=files) as full:
        full.append("t", 0, [record("second")])
        files.fail_at, files.forever = files.calls + 1, True
        with pytest.raises(DiskFull):
            full.append("t", 0, [record("mine")], guard=Guard(2, lambda records: None))
        files.fail_at = 0
        assert [one.value for one in log.read("t", 0, 0)] == [b"first", b"second"]


def test_a_refused_append_is_not_counted(tmp_path: Path) -> None:
    metrics = LogMetrics()
    with EmbeddedLog(tmp_path, metrics=metrics) as log:
        log.create_topic("t")
        log.append("t", 0, [record("first")])
        before = counted(metrics)
        with pytest.raises(Conflict):
            log.append("t", 0, [record("mine")], guard=Guard(0, Refusing(log)))
        assert counted(metrics) == before
        log.append("t", 0, [record("mine")], guard=Guard(0, lambda records: None))
        assert counted(metrics) != before


def counted(metrics: LogMetrics) -> list[float]:
    """Every number that the log has counted, but for the time that passed and the end."""
    return [sample.value for family in metrics.families() for sample in family.samples if sample.name.endswith(("_total", "_count"))]
