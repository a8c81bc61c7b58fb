"""What is asked of all pipelines, and of one whose run is not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import BadInput, NotFound
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline.offsets.state import RunInfo
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.operations import PipelineOperations, everything


@pytest.fixture
def log(stopped_shop: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(stopped_shop) as log:
        yield log


def test_a_log_without_messages_has_an_empty_page(log: EmbeddedLog) -> None:
    log.create_topic("pipeline-new-offsets")
    log.create_topic("pipeline-new")
    assert PipelineOperations(log, "new").messages() == answers.Messages(items=[], next=None, oldest=0, current=-1)
    assert [(one.pipeline, one.state) for one in everything(log, lambda name: PipelineOperations(log, name).status())] == [
        ("new", "new"),
        ("shop", "stopped at report"),
    ]


def test_a_pipeline_that_cannot_be_read_does_not_hide_the_others(log: EmbeddedLog) -> None:
    for topic in ("pipeline-bad", "pipeline-bad-offsets"):
        log.create_topic(topic)
    log.claim("pipeline-bad-offsets", 0).append([Record(b"run", b"{")])
    found = everything(log, lambda name: PipelineOperations(log, name).status())
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
