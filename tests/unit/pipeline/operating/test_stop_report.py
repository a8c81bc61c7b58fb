"""What is told of sinks that stand at messages when a run ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.offsets.state import Failure
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.stop_report import stopped


@pytest.fixture
def operator(stopped_shop: Path) -> Iterator[PipelineOperations]:
    with EmbeddedLog(stopped_shop) as log:
        yield PipelineOperations(log, "shop")


def test_every_sink_s_hint_is_told_once(operator: PipelineOperations) -> None:
    first = ("report", Failure(offset=14, error="E", message="no such table", hint="Create the table."))
    other = ("archive", Failure(offset=3, error="E", message="no such topic", hint="Create the topic."))
    same = ("third", Failure(offset=14, error="E", message="no such table", hint="Create the table."))
    lines = stopped(operator, [first, other, same]).hint.split("\n  ")
    assert lines[0] == "Create the table."
    assert lines[lines.index("archive stands at message 3: no such topic") + 1] == "  Create the topic."
    assert sum("Create the table." in line for line in lines) == 1
