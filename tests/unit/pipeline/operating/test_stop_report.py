"""What is told of sinks that stand at messages when a run ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.stop_report import StoppedSink, stopped


@pytest.fixture
def operator(stopped_shop: Path) -> Iterator[PipelineOperations]:
    with EmbeddedLog(stopped_shop) as log:
        yield PipelineOperations(log, "shop")


def test_every_sink_s_hint_is_told_once(operator: PipelineOperations) -> None:
    first = StoppedSink(sink="report", offset=14, message="no such table", hint="Create the table.")
    other = StoppedSink(sink="archive", offset=3, message="no such topic", hint="Create the topic.")
    same = StoppedSink(sink="third", offset=14, message="no such table", hint="Create the table.")
    lines = stopped(operator, [first, other, same]).hint.split("\n  ")
    assert lines[0] == "Create the table."
    assert lines[lines.index("archive stands at message 3: no such topic") + 1] == "  Create the topic."
    assert sum("Create the table." in line for line in lines) == 1
