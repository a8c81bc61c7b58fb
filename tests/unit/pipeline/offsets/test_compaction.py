"""What a compaction must leave in a pipeline's log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import BadBounds, Conflict
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.writer import EmbeddedWriter
from headwater.log.record import Compacted, Record, TopicSettings
from headwater.pipeline.offsets.compaction import compact, has_holes, is_compacted, limit
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, Compacting, Dead, ReaderState, SinkState, State
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.testing.clock import ManualClock

COUNT = 40


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(log_topic("p"), settings=TopicSettings(segment=500), part=PART)
        writer = log.claim(log_topic("p"), 0, part=PART)
        for n in range(COUNT):
            writer.append([Record(b"ab"[n % 2 :][:1], b'{"_id":%d}' % n)])
        yield log


def control(log: Log, *changes: Change) -> Control:
    made = Control.create(log, "p", ManualClock())
    made.change(lambda state: changes)
    return made


def test_the_limit_is_what_the_slowest_sink_a_dead_letter_or_the_reader_needs() -> None:
    state = State()
    assert limit(state) == 0
    state.apply("sink/a", SinkState(position=7))
    assert limit(state) == 8
    state.apply("dead/a/5", Dead(sink="a", offset=5, error="E", message="m"))
    assert limit(state) == 5
    state.apply("reader", ReaderState(run="r", plan={}, begun=0, upto=3))
    assert limit(state) == 3
    state.apply("sink/b", SinkState())  # it never took anything, and keeps everything
    assert limit(state) == 0


def test_the_last_message_of_each_namespace_stays(log: Log) -> None:
    made = control(log, ("sink/a", SinkState(position=29)))
    assert compact(made, dry_run=True).before == 30
    assert not is_compacted(log, made.messages)
    freed = compact(made)
    assert freed.before == 30
    left = [one.offset for one in log.read(made.messages, 0, 0, limit=100)]
    assert left[-10:] == list(range(30, 40))
    assert COUNT - len(left) == freed.records_before - freed.records_after > 10
    first = [log.read(made.messages, 0, offset or 0, limit=1)[0].key for offset in left[:2]]
    assert sorted(first) == [b"a", b"b"]  # type: ignore[type-var]
    assert is_compacted(log, made.messages)
    assert has_holes(log, made.messages, 0, 29)
    assert not has_holes(log, made.messages, 30, 39)


def test_a_hole_behind_the_last_messages_of_many_namespaces_is_seen(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(log_topic("p"), settings=TopicSettings(segment=2000), part=PART)
        writer = log.claim(log_topic("p"), 0, part=PART)
        writer.append([Record(b"first", b"{}") for _ in range(10)])
        writer.append([Record(b"n%d" % n, b"{}") for n in range(1200)])  # each the last of its namespace, side by side
        for _ in range(60):
            writer.append([Record(b"last", b"{}")])
        made = control(log, ("sink/a", SinkState(position=1260)))
        compact(made)
        for first in (0, 9, 10, 500):
            assert has_holes(log, made.messages, first, 1260), first
        assert not has_holes(log, made.messages, 10, 1209)
        operator = PipelineOperations(log, "p", clock=ManualClock())
        with pytest.raises(BadBounds, match="Compaction has removed messages"):
            operator.mark("a", 9, why="again")
        assert operator.sink("a").position == 1260


def test_a_sink_that_never_took_anything_keeps_all_of_it(log: Log) -> None:
    made = control(log, ("sink/a", SinkState(position=29)), ("sink/b", SinkState()))
    assert compact(made).before == 0
    assert len(log.read(made.messages, 0, 0, limit=100)) == COUNT


def test_while_messages_are_taken_away_no_sink_is_moved_back_behind_them(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    made = control(log, ("sink/a", SinkState(position=29)))
    operator, write = PipelineOperations(log, "p", clock=ManualClock()), EmbeddedWriter.compact

    def meanwhile(writer: EmbeddedWriter, before: int | None = None) -> Compacted:
        if writer.topic != made.messages:
            return write(writer, before)
        with pytest.raises(Conflict, match="are being compacted"):
            operator.mark("a", 3, why="again")
        assert operator.mark("a", 35, why="forward").position == 35
        assert operator.mark("a", 29, why="back to the limit").position == 29
        return write(writer, before)

    with monkeypatch.context() as patched:
        patched.setattr(EmbeddedWriter, "compact", meanwhile)
        assert compact(made).before == 30
    assert made.refresh().compactions == {}
    with pytest.raises(BadBounds, match="Compaction has removed messages"):
        operator.mark("a", 3, why="again")


def test_a_mark_that_came_first_keeps_its_messages(log: Log) -> None:
    made = control(log, ("sink/a", SinkState(position=29)))
    PipelineOperations(log, "p", clock=ManualClock()).mark("a", 3, why="again")
    assert compact(made).before == 4


def test_a_compaction_that_died_is_forgotten_by_a_later_one(log: Log) -> None:
    made = control(log, ("sink/a", SinkState(position=29)), ("compacting/x", Compacting(before=30, at=ManualClock().now_ms())))
    compact(made)
    assert list(made.state.compactions) == ["x"]  # it may be under way yet
    clock = ManualClock()
    clock.advance(3601.0)
    compact(Control(log, "p", clock))
    assert made.refresh().compactions == {}
