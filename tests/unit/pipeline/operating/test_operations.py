"""What is asked of all pipelines, and of one whose run is not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import BadInput, Conflict, NotFound, UnknownPipeline
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import RunInfo
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.performer import PipelinePerformer
from headwater.testing.clock import ManualClock


@pytest.fixture
def log(stopped_shop: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(stopped_shop) as log:
        yield log


def test_a_log_without_messages_has_an_empty_page(log: EmbeddedLog) -> None:
    log.create_topic("pipeline-new-offsets", part=PART)
    log.create_topic("pipeline-new", part=PART)
    assert PipelineOperations(log, "new").messages() == answers.Messages(items=[], next=None, oldest=0, current=-1)
    assert [(one.pipeline, one.state) for one in PipelinePerformer().every(log)] == [
        ("new", "new"),
        ("shop", "stopped at report"),
    ]


def test_a_pipeline_that_cannot_be_read_does_not_hide_the_others(log: EmbeddedLog) -> None:
    for topic in ("pipeline-bad", "pipeline-bad-offsets"):
        log.create_topic(topic, part=PART)
    log.claim("pipeline-bad-offsets", 0, part=PART).append([Record(b"run", b"{")])
    found = PipelinePerformer().every(log)
    assert [(one.pipeline, one.state) for one in found] == [("bad", "damaged"), ("shop", "stopped at report")]


def test_the_folder_of_a_run_that_is_gone_is_told(log: EmbeddedLog, tmp_path: Path) -> None:
    shop = PipelineOperations(log, "shop")
    assert shop.folder() is None
    run = RunInfo(epoch=1, id="r", began=1, state="done", folder=str(tmp_path / "gone"))
    shop.control.change(lambda state: [("run", run)])
    with pytest.raises(NotFound, match="gone"):
        shop.folder()
    (tmp_path / "gone").mkdir()
    assert shop.folder() == tmp_path / "gone"
    with pytest.raises(BadInput, match="defined is not known"):
        shop.step("report")


# -- the run ----------------------------------------------------------------------------------------------------


def test_a_pipeline_that_does_not_run_is_removed_with_its_topics(log: EmbeddedLog) -> None:
    shop = PipelineOperations(log, "shop")
    tried = shop.remove(dry_run=True)
    assert (tried.topics, tried.messages, tried.dry_run) == (["pipeline-shop", "pipeline-shop-offsets"], 16, True)
    assert shop.status().end == 16
    assert not shop.remove().dry_run
    assert log.topics() == []
    with pytest.raises(UnknownPipeline):
        PipelineOperations(log, "shop")


def test_a_pipeline_that_runs_or_may_run_is_not_removed(log: EmbeddedLog) -> None:
    clock = ManualClock()
    shop = PipelineOperations(log, "shop", clock=clock)
    for beat in (clock.now_ms(), 1):  # the second one is silent: its machine may be lost, or it comes back
        run = RunInfo(epoch=1, id="r", began=1, beat=beat, process="elsewhere:1")
        shop.control.change(lambda state, run=run: [("run", run)])  # type: ignore[misc]
        for dry_run in (True, False):
            with pytest.raises(Conflict, match="under way") as refused:
                shop.remove(dry_run=dry_run)
            assert "headwater pipeline stop shop" in refused.value.hint
    assert len(log.topics()) == 2


def test_a_removal_that_died_between_the_topics_is_done_again(log: EmbeddedLog) -> None:
    log.delete_topic("pipeline-shop", part=PART)
    assert PipelineOperations(log, "shop").remove().messages == 0
    assert log.topics() == []
