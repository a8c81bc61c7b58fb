"""Whether a sink has newer messages of the same documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.clock import SystemClock
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Pipeline, Sink
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Dead, Entry, SinkState
from headwater.pipeline.operating.superseded import command_among, superseded
from headwater.pipeline.operating.view import PipelineView

# Offsets: 0 and 3 are of document 1, 1 and 5 of document 2; 2 is of another table; 4 cannot be read.
TEXTS = [b'{"_id":1}', b'{"_id":2}', b'{"_id":1}', b'{"_id":1,"n":2}', b"{", b'{"_id":2,"n":2}']
TABLES = [b"t", b"t", b"u", b"t", b"t", b"t"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(log_topic("p"), part=PART)
        log.append(log_topic("p"), 0, [Record(key, text) for key, text in zip(TABLES, TEXTS, strict=True)], part=PART)
        Control.create(log, "p", SystemClock()).change(lambda state: [("sink/s", SinkState(position=5))])
        yield log


@pytest.fixture
def sink() -> Sink:
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).save("s", sqlite("s.db"))
    return pipeline.sinks["s"]


def test_a_later_message_of_the_same_document_is_found(log: Log, sink: Sink) -> None:
    view = PipelineView(log, "p")
    assert superseded(view, sink, 0, 0) == 3
    assert superseded(view, sink, 1, 1) == 5  # behind one that cannot be read
    assert superseded(view, sink, 2, 2) is None
    assert superseded(view, sink, 0, 3) == 5
    assert superseded(view, sink, 3, 5) is None


@pytest.mark.parametrize("how", ["not taken", "aside", "skipped"])
def test_one_that_the_sink_does_not_have_is_none(log: Log, sink: Sink, how: str) -> None:
    changes = {
        "not taken": ("sink/s", SinkState(position=2)),
        "aside": ("dead/s/3", Dead(sink="s", offset=3, error="E", message="m")),
        "skipped": ("audit/1", Entry(at=1, who="a", what="ack", details={"sink": "s", "offset": 3})),
    }
    Control(log, "p", SystemClock()).change(lambda state: [changes[how]])
    assert superseded(PipelineView(log, "p"), sink, 0, 0) is None


def test_a_command_is_found_and_everything_behind_it_is_newer(log: Log, sink: Sink) -> None:
    view = PipelineView(log, "p")
    assert command_among(view, sink, 0, 5) is None
    log.append(log_topic("p"), 0, [Record(b"t", b"{}", op=Op.COMMAND), Record(b"t", b'{"_id":9}')], part=PART)
    assert command_among(view, sink, 0, 7) == 6
    assert command_among(view, sink, 7, 7) is None
    Control(log, "p", SystemClock()).change(lambda state: [("sink/s", SinkState(position=7))])
    assert superseded(view, sink, 6, 6) == 7


@pytest.mark.parametrize(("one", "other"), [('"Key"', '"KEY "'), ("1.10", "1.1"), ('"7"', "7")])
def test_ids_that_the_sink_may_call_equal_are_of_one_document(log: Log, sink: Sink, one: str, other: str) -> None:
    texts = [f'{{"_id":{text}}}'.encode() for text in (one, '"other"', other)]
    log.append(log_topic("p"), 0, [Record(b"t", text) for text in texts], part=PART)
    Control(log, "p", SystemClock()).change(lambda state: [("sink/s", SinkState(position=8))])
    assert superseded(PipelineView(log, "p"), sink, 6, 6) == 8
    assert superseded(PipelineView(log, "p"), sink, 7, 7) is None
