"""Sinks that cannot be reached are seen by whoever asks elsewhere, and only while the run that says so lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import SOURCE, RunInfo, SinkState
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.running.context import Activity, LoopState
from headwater.pipeline.running.outages import Outages
from headwater.testing.clock import ManualClock

AWAY = LoopState(Activity.UNREACHABLE, "search at h:9200 cannot be reached.")
DELIVERING = LoopState(Activity.DELIVERING)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[Log]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(log_topic("p"), part=PART)
        log.claim(log_topic("p"), 0, part=PART).append([Record(b"t", b"{}")] * 5)
        run = RunInfo(epoch=3, id="r", began=clock.now_ms(), process="elsewhere:1")
        sinks = [("sink/search", SinkState(position=1)), ("sink/archive", SinkState(position=4))]
        Control.create(log, "p", clock).change(lambda state: [("run", run), *sinks])
        yield log


@pytest.fixture
def troubles(log: Log, clock: ManualClock) -> Outages:
    return Outages(Control(log, "p", clock), 3)


def seen(log: Log, clock: ManualClock) -> tuple[str, str, str]:
    found = PipelineOperations(log, "p", clock=clock).status()
    search = next(one for one in found.sinks if one.sink == "search")
    return found.state, search.state, search.error.message if search.error is not None else ""


def test_a_sink_that_is_waited_for_is_told_until_it_moves(log: Log, clock: ManualClock, troubles: Outages) -> None:
    troubles.hear("search", DELIVERING, 1, 5_000)
    assert seen(log, clock) == ("running", "running", "")
    end = log.bounds("pipeline-p-offsets", 0).end
    troubles.hear("search", AWAY, 1, 5_000)
    told = ("running, search unreachable", "unreachable", "search at h:9200 cannot be reached.")
    assert seen(log, clock) == told
    troubles.hear("search", AWAY, 1, 5_000)
    troubles.hear("search", DELIVERING, 1, 5_000)  # it tries again
    assert seen(log, clock) == told
    assert log.bounds("pipeline-p-offsets", 0).end == end + 1  # written once
    troubles.hear("search", DELIVERING, 2, 5_000)
    assert seen(log, clock) == ("running", "running", "")


def test_what_a_run_said_does_not_outlive_it(log: Log, clock: ManualClock, troubles: Outages) -> None:
    troubles.hear("search", AWAY, 1, 5_000)
    control = Control(log, "p", clock)
    newer = RunInfo(epoch=4, id="s", began=clock.now_ms(), process="elsewhere:2")
    control.change(lambda state: [("run", newer)])
    assert seen(log, clock) == ("running", "running", "")
    troubles.hear(
        "search", LoopState(Activity.UNREACHABLE, "something else"), 1, 5_000
    )  # the older one has not noticed yet that it is shut out
    assert control.refresh().outages["search"].epoch == 3
    assert seen(log, clock) == ("running", "running", "")


def test_a_message_that_a_sink_stands_at_comes_first(log: Log, clock: ManualClock, troubles: Outages) -> None:
    troubles.hear("search", AWAY, 1, 5_000)
    troubles.hear("search", LoopState(Activity.STOPPED), 1, 5_000)
    assert seen(log, clock)[1] == "running"


def test_a_source_that_is_waited_for_is_told_until_it_gives_something(log: Log, clock: ManualClock, troubles: Outages) -> None:
    def phase() -> str | None:
        return PipelineOperations(log, "p", clock=clock).status().phase

    troubles.hear(SOURCE, LoopState(Activity.UNREACHABLE, "shop at h:5432 does not answer."), 7, 5_000)
    assert phase() == "unreachable: shop at h:5432 does not answer."
    assert seen(log, clock) == ("running", "running", "")
    troubles.hear(SOURCE, LoopState(Activity.FOLLOWING), 8, 5_000)
    assert phase() is None  # nothing was planned yet
