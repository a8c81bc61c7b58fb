"""Operations of pipelines are performed on the log that holds them, and their state is kept between two questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import NotFound, UnknownPipeline
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.offsets.control import Control, offsets_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import RunInfo, SinkState
from headwater.pipeline.operating.log_dirs import remember
from headwater.pipeline.operating.performer import PipelinePerformer
from headwater.pipeline.operations import (
    ACK,
    LIST,
    MESSAGES,
    STATUS,
    STEP,
    AckMessage,
    ListPipelines,
    PipelineRequest,
    ReadMessages,
    StepSink,
)
from headwater.testing.clock import ManualClock

SHOP = PipelineRequest(pipeline="shop")


@pytest.fixture
def log(stopped_shop: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(stopped_shop) as log:
        yield log


def test_a_question_and_a_change_are_answered_and_audited(log: EmbeddedLog) -> None:
    performer = PipelinePerformer()
    assert performer.perform(log, STATUS, SHOP).state == "stopped at report"
    ack = AckMessage(pipeline="shop", sink="report", offset=14, why="gone")
    assert performer.perform(log, ACK, ack, who="ann").position == 14
    assert [one.who for one in Control(log, "shop", ManualClock()).state.audit.values()] == ["ann"]
    assert [one.pipeline for one in performer.perform(log, LIST, ListPipelines())] == ["shop"]
    with pytest.raises(UnknownPipeline):
        performer.perform(log, STATUS, PipelineRequest(pipeline="ghost"))


def test_between_two_questions_only_what_is_new_is_read(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    performer, starts = PipelinePerformer(), []
    performer.perform(log, STATUS, SHOP)
    read = log.read

    def counted(topic: str, partition: int, start: int, **more: int) -> object:
        if topic == offsets_topic("shop"):
            starts.append(start)
        return read(topic, partition, start, **more)

    monkeypatch.setattr(log, "read", counted)
    performer.perform(log, STATUS, SHOP)
    assert starts
    assert min(starts) == log.bounds(offsets_topic("shop"), 0).end
    Control(log, "shop", ManualClock()).change(lambda state: [("sink/report", SinkState(position=15))])
    assert performer.perform(log, STATUS, SHOP).lag == 0


def test_a_topic_that_was_made_anew_is_not_answered_from_what_was_kept(log: EmbeddedLog) -> None:
    performer = PipelinePerformer()
    performer.perform(log, STATUS, SHOP)
    log.delete_topic(offsets_topic("shop"), part=PART)
    Control.create(log, "shop", ManualClock())
    assert performer.perform(log, STATUS, SHOP).state == "new"


def test_a_pipeline_with_a_log_of_its_own_is_asked_there(log: EmbeddedLog, stopped_shop: Path, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "apart") as other:
        other.create_topic("pipeline-far", part=PART)
        Control.create(other, "far", ManualClock()).change(lambda state: [("sink/s", SinkState(position=-1))])
    remember(stopped_shop, "far", tmp_path / "apart")
    performer = PipelinePerformer()
    found = performer.perform(log, STATUS, PipelineRequest(pipeline="far"))
    assert (found.pipeline, found.log_dir) == ("far", str(tmp_path / "apart"))
    assert [(one.pipeline, one.log_dir != "") for one in performer.every(log)] == [("far", True), ("shop", False)]
    assert performer.locate(log, STEP, StepSink(pipeline="far", sink="s"))[0].path == str(tmp_path / "apart")


def test_a_file_must_run_where_its_last_run_was_and_a_search_anywhere(log: EmbeddedLog, tmp_path: Path) -> None:
    performer = PipelinePerformer()
    run = RunInfo(epoch=9, id="r", began=1, state="done", folder=str(tmp_path / "gone"))
    Control(log, "shop", ManualClock()).change(lambda state: [("run", run)])
    assert performer.locate(log, MESSAGES, ReadMessages(pipeline="shop")) == (log.address, None)
    with pytest.raises(NotFound):
        performer.locate(log, STEP, StepSink(pipeline="shop", sink="report"))
    (tmp_path / "gone").mkdir()
    assert performer.locate(log, STEP, StepSink(pipeline="shop", sink="report")) == (log.address, tmp_path / "gone")


def test_the_metrics_read_where_the_sinks_are(log: EmbeddedLog) -> None:
    performer = PipelinePerformer()
    assert [(one.sink, one.offset, one.lag, one.stopped) for one in performer.readings(log)] == [
        ("archive", 15, 0, False),
        ("report", 13, 2, True),
    ]
    assert performer.readings(None) == []
    log.close()
    assert performer.readings(log) == []
