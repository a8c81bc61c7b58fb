"""The offset log, changed by several at once."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headwater.core.errors import Conflict, Fenced, OutcomeUnknown, UnknownPipeline, Unsupported
from headwater.log import Compacted, Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.writer import EmbeddedWriter
from headwater.log.guard import Guard
from headwater.log.record import Record, TopicSettings
from headwater.pipeline.offsets.control import Control, log_topic, offsets_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, Edit, Entry, ReaderState, RunInfo, SinkState, State
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles

CLOCK = ManualClock()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as opened:
        yield opened


def forward(sink: str = "a") -> object:
    """A change that builds on what is there: lost ones would be missing from the sum."""

    def decide(state: State) -> list[Change]:
        return [(f"sink/{sink}", SinkState(position=state.sink(sink).position + 1))]

    return decide


def test_a_pipeline_that_never_ran_is_unknown_and_nothing_is_created(log: EmbeddedLog) -> None:
    with pytest.raises(UnknownPipeline, match="No pipeline named orders"):
        Control(log, "orders", CLOCK)
    assert log.topics() == []


def test_topics_of_one_pipeline_differ() -> None:
    assert log_topic("orders") == "pipeline-orders"
    assert offsets_topic("orders") == "pipeline-orders-offsets"


def test_changes_survive(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        control = Control.create(log, "orders", CLOCK)
        made = control.change(lambda state: [("sink/a", SinkState(position=5)), ("taken/a/ns", 5)])
        assert [key for key, _ in made] == ["sink/a", "taken/a/ns"]
        assert control.state.sink("a").position == 5
    with EmbeddedLog(tmp_path) as log:
        state = Control(log, "orders", CLOCK).state
        assert state.sink("a").position == 5
        assert state.taken == {"a": {"ns": 5}}


def test_a_sink_that_is_removed_and_comes_again_has_taken_nothing(log: EmbeddedLog) -> None:
    control = Control.create(log, "orders", CLOCK)
    control.change(lambda state: [("sink/a", SinkState(position=5)), ("taken/a/ns", 5)])
    control.change(lambda state: [("sink/a", None)])
    control.change(lambda state: [("sink/a", SinkState(position=0))])
    assert control.state.taken == Control(log, "orders", CLOCK).state.taken == {}


def test_no_change_appends_nothing(log: EmbeddedLog) -> None:
    control = Control.create(log, "orders", CLOCK)
    assert control.change(lambda state: []) == []
    assert log.bounds(control.topic, 0).end == 0


def test_what_deciding_raises_changes_nothing(log: EmbeddedLog) -> None:
    control = Control.create(log, "orders", CLOCK)

    def refuse(state: State) -> list[Change]:
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        control.change(refuse)
    assert log.bounds(control.topic, 0).end == 0
    control.change(forward())  # type: ignore[arg-type]
    assert control.state.sink("a").position == 0


def test_whoever_was_fenced_decides_again_knowing_the_others_change(log: EmbeddedLog) -> None:
    first = Control.create(log, "orders", CLOCK)
    second = Control(log, "orders", CLOCK)
    asked: list[int] = []

    def decide(state: State) -> list[Change]:
        asked.append(state.sink("a").position)
        if len(asked) == 1:
            second.change(forward())  # type: ignore[arg-type]
        return [("sink/a", SinkState(position=state.sink("a").position + 1))]

    first.change(decide)
    assert asked == [-1, 0]
    assert first.state.sink("a").position == second.refresh().sink("a").position == 1


def test_it_gives_up_when_others_never_stop(log: EmbeddedLog) -> None:
    first = Control.create(log, "orders", CLOCK)
    second = Control(log, "orders", CLOCK)

    def decide(state: State) -> list[Change]:
        second.change(forward("b"))  # type: ignore[arg-type]
        return [("sink/a", SinkState(position=1))]

    with pytest.raises(Conflict, match="changed by others all the time"):
        first.change(decide)
    assert "a" not in second.refresh().sinks


def test_no_change_is_lost_among_many(tmp_path: Path) -> None:
    """Two logs on one directory, as of two processes, each with two threads."""
    each, problems = 15, []
    with EmbeddedLog(tmp_path) as one, EmbeddedLog(tmp_path) as other:
        Control.create(one, "orders", CLOCK)
        controls = [Control(log, "orders", CLOCK) for log in (one, other)]

        def work(control: Control) -> None:
            try:
                for _ in range(each):
                    control.change(forward())  # type: ignore[arg-type]
            except Exception as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(control,)) for control in controls for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert [control.refresh().sink("a").position for control in controls] == [4 * each - 1] * 2


def removed_and_created_again(data: Path) -> Control:
    """Another process removes the pipeline and begins it again, with as many changes and claims as before."""
    with EmbeddedLog(data) as other:
        other.delete_topic(offsets_topic("orders"), part=PART)
        control = Control.create(other, "orders", CLOCK)
        control.change(lambda state: [("sink/new", SinkState(position=7))])
        return control


@pytest.mark.parametrize("claimed", [True, False])
def test_a_change_of_a_pipeline_that_was_created_again_is_fenced(log: EmbeddedLog, tmp_path: Path, claimed: bool) -> None:
    """The new offset log has the same end and the same epoch, so only its generation tells that the state known here is not its own."""
    control = Control.create(log, "orders", CLOCK)
    control.change(forward())  # type: ignore[arg-type]
    if not claimed:
        control = Control(log, "orders", CLOCK)
    new = removed_and_created_again(tmp_path)
    assert new._next == control._next
    with pytest.raises(Fenced, match="removed and created again"):
        control.change(forward())  # type: ignore[arg-type]
    with pytest.raises(Fenced, match="removed and created again"):
        control.compact()
    assert Control(log, "orders", CLOCK).state.sinks == new.state.sinks


class Unsure(Writer):
    """A writer of which nobody is told how many records of its append got through."""

    def __init__(self, real: Writer, arriving: int) -> None:
        self.topic, self.partition, self.epoch = real.topic, real.partition, real.epoch
        self._real, self._arriving = real, arriving

    def append(self, records: Sequence[Record], *, guard: Guard | None = None) -> Sequence[int]:
        if self._arriving:
            self._real.append(records[: self._arriving], guard=guard)
        raise OutcomeUnknown("The line went dead.")

    def append_arrow(self, batch: object) -> Sequence[int]:
        raise AssertionError

    def roll(self) -> int:
        raise AssertionError

    def delete_before(self, offset: int) -> int:
        raise AssertionError

    def compact(self, before: int | None = None) -> Compacted:
        raise AssertionError


@pytest.mark.parametrize("arriving", [2, 0])
def test_a_change_of_unknown_outcome_is_made_exactly_once(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch, arriving: int) -> None:
    control = Control.create(log, "orders", CLOCK)
    control.change(forward())  # type: ignore[arg-type]
    monkeypatch.setattr(control, "_writer", Unsure(log.claim(control.topic, 0, part=PART), arriving))
    end = log.bounds(control.topic, 0).end
    made = control.change(
        lambda state: [("sink/a", SinkState(position=state.sink("a").position + 1)), ("audit/1", Entry(at=0, who="w", what="x"))]
    )
    assert [key for key, _ in made] == ["sink/a", "audit/1"]
    assert log.bounds(control.topic, 0).end == end + 2
    assert Control(log, "orders", CLOCK).state.sink("a").position == control.state.sink("a").position == 1


def test_a_change_of_which_only_a_part_arrived_is_made_whole(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka may keep the leading records of an append that failed midway."""
    control = Control.create(log, "orders", CLOCK)
    monkeypatch.setattr(control, "_writer", Unsure(log.claim(control.topic, 0, part=PART), 1))
    control.change(lambda state: [("sink/a", SinkState(position=7)), ("audit/1", Entry(at=0, who="w", what="x"))])
    assert control.state.sink("a").position == 7
    assert list(control.state.audit) == ["1"]


def test_a_failing_disk_loses_no_acknowledged_change(tmp_path: Path) -> None:
    """Whichever call fails: what `change` has returned is there afterwards, and what it raised for is there once or not at all."""
    for fail_at in range(1, 40):
        folder = tmp_path / str(fail_at)
        with EmbeddedLog(folder) as log:
            Control.create(log, "orders", CLOCK).change(forward())  # type: ignore[arg-type]
        files = FailingFiles(fail_at, number=errno.EIO)
        done = 0
        with EmbeddedLog(folder, files=files) as log:
            try:
                control = Control(log, "orders", CLOCK)
                for _ in range(4):
                    control.change(forward())  # type: ignore[arg-type]
                    done += 1
            except Exception:
                assert files.failed
        with EmbeddedLog(folder) as log:
            found = Control(log, "orders", CLOCK).state.sink("a").position
        assert found == done or (files.failed and found == done + 1)
        if not files.failed:
            break
    else:
        raise AssertionError("Every round failed: none shows that all calls were tried.")


def test_compaction_keeps_the_state(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(offsets_topic("orders"), settings=TopicSettings(segment=1), part=PART)  # each batch closes its segment
        control = Control(log, "orders", CLOCK)
        for offset in range(10):
            control.change(lambda state, offset=offset: [("sink/a", SinkState(position=offset)), (f"taken/a/{offset % 3}", offset)])  # type: ignore[misc]
        before = vars(control.state)
        control.compact()
        kept = log.read(control.topic, 0, log.bounds(control.topic, 0).start)
        assert len(kept) < 20
        assert vars(Control(log, "orders", CLOCK).state) == before


class NoCompactionWriter(EmbeddedWriter):
    def compact(self, before: int | None = None) -> Compacted:
        raise Unsupported("Not here.")


class NoCompaction(EmbeddedLog):
    """An engine that does not compact on demand, as Kafka's."""

    def claim(self, topic: str, partition: int, *, part: str = "") -> Writer:
        epoch = super().claim(topic, partition, part=part).epoch
        return NoCompactionWriter(self, topic, partition, epoch, generation=self.topic(topic).generation)


FULL: list[Change] = [
    ("run", RunInfo(epoch=3, id="r", began=1)),
    ("reader", ReaderState(run="r", plan={"a": 1}, begun=0)),
    ("sink/a", SinkState(position=5)),
    ("sink/b", SinkState(position=2)),
    ("taken/a/public.orders", 5),
    ("edit/3", Edit(data={"x": 1})),
    ("edit/3/a", Edit(data={"x": 2})),
    ("audit/1", Entry(at=0, who="w", what="x")),
]


def test_where_there_is_no_compaction_the_state_is_written_anew(tmp_path: Path) -> None:
    with NoCompaction(tmp_path) as log:
        control = Control.create(log, "orders", CLOCK)
        for _ in range(5):
            control.change(lambda state: FULL)
        reader = Control(log, "orders", CLOCK)
        control.compact()
        bounds = log.bounds(control.topic, 0)
        assert bounds.end - bounds.start == len(FULL)
        assert vars(Control(log, "orders", CLOCK).state) == vars(control.state)
        control.change(lambda state: [("sink/a", SinkState(position=6))])
        assert reader.refresh().sink("a").position == 6
        assert reader.state.edits == control.state.edits


def test_a_change_by_another_while_the_state_is_written_anew_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NoCompaction(tmp_path) as log:
        control = Control.create(log, "orders", CLOCK)
        control.change(lambda state: FULL)
        other = Control(log, "orders", CLOCK)
        real = control._read
        calls = 0

        def late() -> None:
            nonlocal calls
            calls += 1
            if calls == 2:  # our state is written, and not yet read back
                other.change(lambda state: [("sink/b", SinkState(position=99)), ("sink/c", SinkState(position=1))])
            real()

        monkeypatch.setattr(control, "_read", late)
        control.compact()
        assert calls >= 2
        state = Control(log, "orders", CLOCK).state
        assert (state.sink("a").position, state.sink("b").position, state.sink("c").position) == (5, 99, 1)
        assert len(state.edits) == 2
        assert state.run is not None


def test_a_behind_reader_begins_anew_when_its_place_is_gone(tmp_path: Path) -> None:
    with NoCompaction(tmp_path) as log:
        control = Control.create(log, "orders", CLOCK)
        behind = Control(log, "orders", CLOCK)
        control.change(lambda state: [("sink/a", SinkState(position=1)), ("sink/gone", SinkState(position=1))])
        control.change(lambda state: [("sink/gone", None), ("sink/a", SinkState(position=2))])
        control.compact()
        assert set(behind.refresh().sinks) == {"a"}


def test_an_offset_log_of_one_segment_is_compacted_once_it_is_worn(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        control = Control.create(log, "orders", CLOCK)
        for start in range(0, 1200, 100):
            control.change(lambda state, start=start: [("sink/a", SinkState(position=start + n)) for n in range(100)])  # type: ignore[misc]
        assert Control(log, "orders", CLOCK).worn
        control.compact_if_worn()
        again = Control(log, "orders", CLOCK)
        assert not control.worn
        assert not again.worn
        assert again.state.sink("a").position == 1199
        assert len(log.read(offsets_topic("orders"), 0, 0, limit=2000)) < 10
        control.change(forward())  # type: ignore[arg-type]
        assert again.refresh().sink("a").position == 1200
