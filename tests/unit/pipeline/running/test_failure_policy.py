"""What becomes of a failure, by the sink's policy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ground import prepared

from headwater.core.settings import SparkSettings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.offsets.acks import Acks
from headwater.pipeline.offsets.state import Failure, SinkState
from headwater.pipeline.policy import DeadLetter, OnError, Retry, Stop
from headwater.pipeline.running.context import Activity, LoopState, RunContext
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.failure_policy import FailurePolicy
from headwater.testing.clock import ManualClock

REFUSED = Failure(offset=3, error="Rejected", message="no")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


class Ground:
    """A sink that has taken the messages before 3 of six."""

    def __init__(self, log: Log, policy: OnError, *, stop_all: bool = False) -> None:
        self.control = prepared(log, [b'{"_id":%d}' % n for n in range(6)], {"db": SinkState(position=2)})
        pipeline = Pipeline("p", on_error="stop_all" if stop_all else "stop")
        pipeline.source("s", file("in.jsonl")).save("db", sqlite("o.db"), on_error=policy)
        self.stopping, clock = threading.Event(), ManualClock()
        context = RunContext(
            control=self.control,
            engine=Engine(log, SparkSettings(start="never"), stopping=self.stopping),
            epoch=1,
            options=pipeline.options,
            clock=clock,
            stopping=self.stopping,
        )
        self.states: list[LoopState] = []
        self.told: list[tuple[str, Failure]] = []
        self.policy = FailurePolicy(
            pipeline.sinks["db"],
            context,
            Acks(self.control, "db", 1, clock=clock, every=1.0),
            enter=self.states.append,
            on_failure=lambda sink, failure: self.told.append((sink, failure)),
        )

    @property
    def sink(self) -> SinkState:
        return self.control.refresh().sink("db")


def test_a_failed_batch_goes_one_at_a_time(log: Log) -> None:
    ground = Ground(log, Stop())
    ground.policy.handle(Failure(offset=3, error="Rejected", message="no", start=3, end=6))
    assert (ground.sink.single_until, ground.sink.position, ground.states, ground.told) == (5, 2, [], [])


@pytest.mark.parametrize("stop_all", [False, True])
def test_a_sink_stops_at_the_message(log: Log, stop_all: bool) -> None:
    ground = Ground(log, Stop(), stop_all=stop_all)
    ground.policy.handle(REFUSED)
    assert ground.sink.stopped
    assert [state.activity for state in ground.states] == [Activity.STOPPED]
    assert [(sink, failure.offset) for sink, failure in ground.told] == [("db", 3)]
    assert ground.stopping.is_set() is stop_all


def test_a_message_is_put_aside_until_too_many_wait_there(log: Log) -> None:
    ground = Ground(log, DeadLetter(1))
    ground.policy.handle(REFUSED)
    assert (ground.sink.position, list(ground.control.state.dead), ground.told) == (3, [("db", 3)], [])
    ground.policy.handle(Failure(offset=4, error="Rejected", message="no"))
    assert (list(ground.control.state.dead), ground.sink.stopped, ground.sink.position) == ([("db", 3)], True, 3)
    assert ground.told[0][1].message == (
        "no. It was not put aside, because 1 message waits there, and DeadLetter(most=1) allows no more. "
        "See `headwater pipeline dead p list`."
    )
    assert ground.sink.failure == ground.told[0][1]


def test_a_message_is_tried_again_as_often_as_the_policy_says(log: Log) -> None:
    ground = Ground(log, Retry(2, "1s", Stop()))
    ground.stopping.set()  # so that nobody waits
    for _ in range(2):
        ground.policy.handle(REFUSED)
        assert (ground.sink.single_until, ground.sink.stopped) == (3, False)
    ground.policy.handle(REFUSED)
    assert ground.sink.stopped
    assert [state.activity for state in ground.states] == [Activity.RETRYING, Activity.RETRYING, Activity.STOPPED]
