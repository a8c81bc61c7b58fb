"""The fence of a run, by the claim of the log and by the offset log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.clock import SystemClock
from headwater.core.errors import Fenced
from headwater.log.address import Engine
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file
from headwater.pipeline.offsets.control import Control, log_topic, offsets_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import RunInfo, SinkState
from headwater.pipeline.running.run_fence import RunFence
from headwater.pipeline.running.work import SinkWork


class ByOffsetLog(EmbeddedLog):
    """A log that is asked as one on Kafka is: by the records of the offset log alone."""

    engine: Engine = "kafka"


@pytest.fixture(params=[EmbeddedLog, ByOffsetLog])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedLog]:
    with request.param(tmp_path) as opened:
        opened.create_topic(log_topic("p"), part=PART)
        yield opened


def run(log: EmbeddedLog, control: Control) -> int:
    """Begin a run as `Run` does: claim the log, then say so in the offset log."""
    epoch = log.claim(log_topic("p"), 0, part=PART).epoch
    control.change(lambda state: [("run", RunInfo(epoch=epoch, id=f"r{epoch}", began=1))])
    return epoch


def work(control: Control, epoch: int) -> SinkWork:
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).save("out", file("out/"))
    return SinkWork.of(control, pipeline.sinks["out"], epoch)


def test_only_a_newer_run_is_a_reason_to_end(log: EmbeddedLog) -> None:
    control, other = (Control.create(log, "p", SystemClock()) for _ in range(2))
    fence = RunFence(log, work(control, run(log, control)))
    fence.check()
    other.change(lambda state: [("sink/out", SinkState(position=3))])
    fence.check()
    run(log, other)
    for _ in range(2):
        with pytest.raises(Fenced, match="A newer run of p has begun"):
            fence.check()


def test_a_newer_run_that_the_control_has_read_already_is_found_when_the_work_is_made(log: EmbeddedLog) -> None:
    control = Control.create(log, "p", SystemClock())
    epoch = run(log, control)
    run(log, control)
    with pytest.raises(Fenced):
        work(control, epoch)


def test_a_newer_run_is_found_where_the_offset_log_was_rewritten_meanwhile(log: EmbeddedLog) -> None:
    control, other = (Control.create(log, "p", SystemClock()) for _ in range(2))
    fence = RunFence(log, work(control, run(log, control)))
    run(log, other)
    writer = log.claim(offsets_topic("p"), 0, part=PART)
    records = log.read(offsets_topic("p"), 0, 0)
    end = writer.append([records[-1]])[0]
    writer.delete_before(end)
    with pytest.raises(Fenced):
        fence.check()


def test_a_pipeline_that_was_removed_has_no_newest_run(tmp_path: Path) -> None:
    with ByOffsetLog(tmp_path) as log:
        log.create_topic(log_topic("p"), part=PART)
        control = Control.create(log, "p", SystemClock())
        fence = RunFence(log, work(control, run(log, control)))
        log.delete_topic(offsets_topic("p"), part=PART)
        with pytest.raises(Fenced):
            fence.check()
        log.create_topic(offsets_topic("p"), part=PART)
        with pytest.raises(Fenced):
            fence.check()
