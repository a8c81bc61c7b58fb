"""One sink's loop: what it delivers, acknowledges, and does with what is refused or cannot be reached."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ground import prepared

from headwater.core.errors import Rejected, Unreachable
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode
from headwater.pipeline.adaptor import About
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Failure, SinkState
from headwater.pipeline.policy import DeadLetter, Retry
from headwater.pipeline.running import delivery_loop
from headwater.pipeline.running.context import Activity, LoopState, RunContext
from headwater.pipeline.running.delivery_loop import SinkLoop
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.part_delivery import deliver_part
from headwater.pipeline.running.run import Run
from headwater.pipeline.sink_adaptor import Batch, CanWrite, Delivery, Part, SinkWriter
from headwater.spark.small import Place
from headwater.testing.clock import ManualClock

CHANGES = 6000  # more than one task is given


def test_one_file_gets_every_change_of_a_range(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id":-1}\n')
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file(str(tmp_path / "in.jsonl")))
    rows.save("one", file(str(tmp_path / "out.jsonl")))
    rows.save("folder", file(f"{tmp_path}/out/"))
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic(log_topic("p"), part=PART)
        log.append(log_topic("p"), 0, [Record(b"in.jsonl", b'{"_id":%d}' % n, mode=Mode.SYNC) for n in range(CHANGES)], part=PART)
        settings = Settings(data=tmp_path / "data", spark=SparkSettings(start="never", master="local[2]"))
        assert Run(pipeline, log, settings).go().state == "done"
    parts = [line for part in (tmp_path / "out").glob("part-*") for line in part.read_text().splitlines()]
    for lines in ((tmp_path / "out.jsonl").read_text().splitlines(), parts):
        assert sorted(json.loads(line)["_id"] for line in lines) == list(range(-1, CHANGES))


@pytest.mark.parametrize("place", ["out/", "out.csv/", "out.parquet/", "out.db"])
def test_what_lies_before_a_delete_that_a_sink_refuses_goes_in_batches(tmp_path: Path, place: str) -> None:
    """A file for each message is what a folder would get of messages that go one at a time."""
    (tmp_path / "in.jsonl").write_text('{"_id":-1}\n')
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file(str(tmp_path / "in.jsonl"), id="_id"))
    format = place.removesuffix("/").removeprefix("out").removeprefix(".") or "jsonl"
    rows.save("to", sqlite(f"{tmp_path}/{place}") if place == "out.db" else file(f"{tmp_path}/{place}", format=format))
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic(log_topic("p"), part=PART)
        changes = [Record(b"in.jsonl", b'{"_id":%d}' % n, mode=Mode.SYNC) for n in range(300)]
        refused = Record(b"in.jsonl", b"{}", mode=Mode.SYNC, op=Op.DELETE)
        log.append(log_topic("p"), 0, [*changes, refused, *changes[:9]], part=PART)
        settings = Settings(data=tmp_path / "data", spark=SparkSettings(start="never", master="local[2]"))
        outcome = Run(pipeline, log, settings).go()
        assert (outcome.state, outcome.sinks[0].position) == ("stopped", 299)
    if place != "out.db":
        assert len(list((tmp_path / place).glob("part-*"))) < 5


# -- one loop by itself -----------------------------------------------------------------------------------------


class Written(SinkWriter):
    def __init__(self, sink: Scripted) -> None:
        self._sink = sink

    def write(self, batch: Batch) -> None:
        numbers = [one.data["_id"] for one in batch.messages]
        Scripted.batches.append(numbers)
        if Scripted.away and Scripted.away_from in (-1, *numbers):
            raise Unreachable(Scripted.away.pop())
        if Scripted.stop is not None and Scripted.stop[0] in numbers:
            Scripted.stop[1].set()
        for message in batch.messages:
            if message.data["_id"] in Scripted.refused:
                raise Rejected("no", offset=message.offset, before_taken=False)
        Scripted.taken += numbers

    def close(self) -> None:
        """Nothing is open."""


class Scripted(CanWrite, frozen=True, kw_only=True):
    """A sink that refuses some messages, and cannot be reached for a while."""

    kind: ClassVar[str] = "scripted"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    delivery: ClassVar[Delivery] = "at least once"
    refused: ClassVar[set[int]] = set()
    away: ClassVar[list[str]] = []
    away_from: ClassVar[int] = -1
    stop: ClassVar[tuple[int, threading.Event] | None] = None
    taken: ClassVar[list[int]] = []
    batches: ClassVar[list[list[int]]] = []
    path: str = "x"

    def writer(self, part: Part) -> SinkWriter:
        return Written(self)


class Hurried(ManualClock):
    """Whoever waits finds the time gone by."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.advance(seconds)
        return event.is_set()

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []


class Ground:
    """A log of twelve messages that is read to its end, and a sink's loop on it."""

    def __init__(self, log: Log, **options: Any) -> None:
        for script in (Scripted.refused, Scripted.away, Scripted.taken, Scripted.batches):
            script.clear()
        Scripted.away_from, Scripted.stop = -1, None
        count, mode = options.pop("count", 12), options.pop("mode", Mode.COPY)
        prepared(log, [b'{"_id":%d}' % n for n in range(count)], {"s": SinkState()}, mode=mode)
        self.log, self.clock, self.stopping, self.told = log, Hurried(), threading.Event(), list[Failure]()
        pipeline = Pipeline("p", on_error=options.pop("pipeline_on_error", "stop"))
        pipeline.source("in", file("in.jsonl")).save("s", Scripted(), **{"batch": 4, **options})
        self.context = RunContext(
            control=Control(log, "p", self.clock),
            engine=Engine(log, SparkSettings(start="never"), stopping=threading.Event()),
            epoch=1,
            options=pipeline.options,
            clock=self.clock,
            stopping=self.stopping,
        )
        self.loop = SinkLoop(pipeline.sinks["s"], self.context, on_failure=lambda sink, failure: self.told.append(failure))

    def stored(self) -> SinkState:
        return Control(self.log, "p", self.clock).state.sink("s")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


def test_batches_are_delivered_acknowledged_and_the_loop_ends(log: Log) -> None:
    ground = Ground(log)
    assert ground.loop.state == LoopState(Activity.STARTING)
    ground.loop.run()
    assert Scripted.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert (ground.stored().position, ground.loop.written) == (11, 12)
    assert ground.loop.state == LoopState(Activity.WAITING)


def test_a_refused_batch_goes_one_at_a_time_up_to_the_message_and_stands_there(log: Log) -> None:
    ground = Ground(log)
    Scripted.refused.add(6)
    ground.loop.run()
    assert Scripted.taken == [0, 1, 2, 3, 4, 5]
    assert Scripted.batches[2:] == [[4], [5], [6]]
    failure = ground.stored().failure
    assert failure is not None
    assert (failure.offset, failure.message, ground.stored().position, ground.stored().stopped) == (6, "no", 5, True)
    assert ground.loop.state == LoopState(Activity.STOPPED)
    assert [one.offset for one in ground.told] == [6]
    assert not ground.stopping.is_set()


def test_with_stop_all_the_first_refusal_ends_the_run(log: Log) -> None:
    ground = Ground(log, pipeline_on_error="stop_all")
    Scripted.refused.add(6)
    ground.loop.run()
    assert ground.stopping.is_set()
    assert [one.offset for one in ground.told] == [6]
    assert (ground.stored().position, ground.stored().stopped) == (5, True)


def test_a_message_is_tried_again_later_each_time_then_put_aside(log: Log) -> None:
    ground = Ground(log, on_error=Retry(2, "1s", DeadLetter()))
    Scripted.refused.add(6)
    ground.loop.run()
    assert Scripted.batches.count([6]) == 3
    assert [seconds for seconds in ground.clock.waits if seconds >= 1] == [1.0, 2.0]
    assert Scripted.taken == [n for n in range(12) if n != 6]
    dead = Control(log, "p", ground.clock).state.dead
    assert [(sink, offset, one.tries) for (sink, offset), one in dead.items()] == [("s", 6, 3)]
    assert (ground.stored().position, ground.stored().failure) == (11, None)


def test_a_sink_that_puts_too_many_aside_stands(log: Log) -> None:
    ground = Ground(log, on_error=DeadLetter(1))
    Scripted.refused.update((2, 5))
    ground.loop.run()
    assert [offset for _, offset in Control(log, "p", ground.clock).state.dead] == [2]
    assert ground.stored().stopped


def test_a_sink_that_cannot_be_reached_blames_no_message(log: Log) -> None:
    ground = Ground(log)
    Scripted.away += ["h:1 does not answer."] * 3
    states: list[LoopState] = []
    ground.clock.wait = lambda event, seconds: states.append(ground.loop.state) or Hurried.wait(ground.clock, event, seconds)  # type: ignore[method-assign,func-returns-value]
    ground.loop.run()
    assert LoopState(Activity.UNREACHABLE, "h:1 does not answer.") in states
    assert ground.clock.waits[:3] == [0.5, 1.0, 2.0]
    assert (Scripted.taken, ground.stored().failure) == (list(range(12)), None)


def test_what_was_taken_before_a_sink_went_away_is_not_sent_again(log: Log) -> None:
    ground = Ground(log)
    Scripted.away += ["gone"] * 2
    Scripted.away_from = 4
    ground.loop.run()
    assert Scripted.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 7], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert (Scripted.taken, ground.stored().position) == (list(range(12)), 11)


def test_a_stop_is_heeded_between_batches_and_what_was_taken_counts(log: Log) -> None:
    ground = Ground(log)
    Scripted.stop = (5, ground.stopping)
    ground.loop.run()
    assert Scripted.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert ground.stored().position == 7


def test_a_part_ends_when_positions_are_due(log: Log) -> None:
    ground = Ground(log)
    write, positions = Written.write, list[int]()

    def slow(self: Written, batch: Batch) -> None:
        positions.append(ground.stored().position)
        write(self, batch)
        ground.clock.advance(2.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Written, "write", slow)
        ground.loop.run()
    assert positions == [-1, 3, 7]


@pytest.mark.parametrize("known", [True, False])
def test_of_a_shared_range_only_what_is_near_the_refused_message_goes_one_at_a_time(log: Log, monkeypatch: Any, known: bool) -> None:
    """Two shares of one range, each delivered to its end or to a refusal; here one after the other, on Spark side by side."""
    ground = Ground(log, count=CHANGES, mode=Mode.SYNC, batch=100, parallelism=2)
    engine = ground.context.engine
    monkeypatch.setattr(delivery_loop, "place", lambda count, spark: Place.SPARK if count > 100 else Place.HERE)
    monkeypatch.setattr(engine.spark, "allowed", True)
    monkeypatch.setattr(engine, "deliver_parts", lambda work, parts, batch: [deliver_part(log, work, part, batch=batch) for part in parts])
    if not known:
        monkeypatch.setattr(Written, "write", unknowing(Written.write))
    Scripted.refused.add(4321)
    ground.loop.run()
    assert (ground.stored().position, ground.stored().stopped) == (4320, True)
    alone = [numbers for numbers in Scripted.batches if len(numbers) == 1]
    assert len(alone) <= 100
    Scripted.refused.clear()
    ground.context.control.change(lambda state: [("sink/s", state.sink("s").revived())])
    ground.loop.run()
    assert ground.stored().position == CHANGES - 1
    assert set(Scripted.taken) == set(range(CHANGES))


def test_a_sink_that_takes_no_shares_gets_nothing_again_behind_a_refused_message(log: Log, monkeypatch: Any) -> None:
    ground = Ground(log, count=CHANGES, mode=Mode.SYNC, batch=100, parallelism=2)
    engine = ground.context.engine
    monkeypatch.setattr(delivery_loop, "place", lambda count, spark: Place.SPARK if count > 100 else Place.HERE)
    monkeypatch.setattr(engine.spark, "allowed", True)
    monkeypatch.setattr(engine, "deliver_parts", lambda work, parts, batch: [deliver_part(log, work, part, batch=batch) for part in parts])
    monkeypatch.setattr(Scripted, "shareable", lambda self: False)
    monkeypatch.setattr(Written, "write", unknowing(Written.write))
    Scripted.refused.add(4321)
    ground.loop.run()
    assert (ground.stored().position, ground.stored().stopped) == (4320, True)
    Scripted.refused.clear()
    ground.context.control.change(lambda state: [("sink/s", state.sink("s").revived())])
    ground.loop.run()
    assert Scripted.taken == list(range(CHANGES))


@pytest.mark.parametrize("mode", [Mode.SYNC, Mode.COPY])
def test_a_sink_that_one_process_uses_is_delivered_to_by_the_run_in_order(log: Log, monkeypatch: Any, mode: Mode) -> None:
    ground = Ground(log, count=CHANGES, mode=mode, batch=100, parallelism=2)
    engine = ground.context.engine
    monkeypatch.setattr(delivery_loop, "place", lambda count, spark: Place.SPARK)
    monkeypatch.setattr(engine.spark, "allowed", True)
    monkeypatch.setattr(engine, "deliver_parts", lambda work, parts, batch: pytest.fail("delivered by tasks"))
    monkeypatch.setattr(Scripted, "alone", lambda self: True)
    ground.loop.run()
    assert ground.stored().position == CHANGES - 1
    assert Scripted.taken == list(range(CHANGES))


def test_a_batch_that_is_tried_again_keeps_its_bounds_though_the_log_has_grown(log: Log, monkeypatch: Any) -> None:
    class Growing(list[Failure]):
        def append(self, failure: Failure) -> None:
            log.writer(log_topic("p"), 0, 1, part=PART).append([Record(b"t", b'{"_id":12}')])

    ground = Ground(log, batch=10)
    monkeypatch.setattr(Scripted, "shareable", lambda self: False)
    ground.told = Growing()
    Scripted.away_from, Scripted.away[:] = 11, ["gone"]
    ground.loop.run()
    assert Scripted.batches == [[*range(10)], [10, 11], [10, 11], [12]]


def test_a_share_that_is_not_heard_of_has_taken_nothing(log: Log, monkeypatch: Any) -> None:
    ground = Ground(log, count=CHANGES, mode=Mode.SYNC, batch=100, parallelism=2)
    engine, rounds = ground.context.engine, list[int]()

    def deliver(work: Any, parts: Any, batch: int) -> list[Any]:
        rounds.append(parts[0].start)
        return [deliver_part(log, work, part, batch=batch) for part in (parts if len(rounds) > 1 else parts[:1])]

    monkeypatch.setattr(delivery_loop, "place", lambda count, spark: Place.SPARK)
    monkeypatch.setattr(engine.spark, "allowed", True)
    monkeypatch.setattr(engine, "deliver_parts", deliver)
    ground.loop.run()
    assert rounds == [0, 0]
    assert ground.stored().position == CHANGES - 1
    assert set(Scripted.taken) == set(range(CHANGES))


def unknowing(write: Any) -> Any:
    """A sink that does not say which message it refuses."""

    def call(self: Written, batch: Batch) -> None:
        try:
            write(self, batch)
        except Rejected as error:
            raise Rejected("no", offset=-1) from error

    return call


def test_one_that_stays_away_ends_the_loop_where_nothing_is_followed(log: Log) -> None:
    ground = Ground(log)
    Scripted.away += ["gone"] * 1000
    with pytest.raises(Unreachable, match="gone"):
        ground.loop.run()
    assert sum(ground.clock.waits) > 300
    ground.loop.give_up(Unreachable("gone", hint="start it"))
    failure = ground.stored().failure
    assert failure is not None
    assert (failure.offset, failure.of_message, failure.hint) == (0, False, "start it")
    assert str(ground.loop.state) == "failed: gone"


@pytest.mark.parametrize(("batch", "sizes"), [(4, [4, 4, 4]), (None, [12])])
def test_a_batch_that_the_user_gives_counts_however_small(log: Log, monkeypatch: Any, batch: int | None, sizes: list[int]) -> None:
    """Else a slow transform never comes to the end of its first batch, and every restart begins it anew."""
    monkeypatch.setattr(Scripted, "least_batch", 10_000)
    Ground(log, batch=batch).loop.run()
    assert [len(one) for one in Scripted.batches] == sizes
