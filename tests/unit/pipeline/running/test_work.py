"""What travels to whoever delivers."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest

from headwater.core.clock import SystemClock
from headwater.core.errors import Fenced
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.columns import ColumnNeeds, ColumnType
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Edit, ReaderState, RunInfo, SinkState
from headwater.pipeline.running.work import Outcome, SinkWork


def test_it_is_made_of_what_is_known_of_the_pipeline(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file("in.jsonl"))
    rows.save("s", sqlite("s.db"), timeout="7s")
    rows.save("o", sqlite("o.db"))
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(log_topic("p"), part=PART)
        control = Control.create(log, "p", SystemClock())
        assert SinkWork.of(control, pipeline.sinks["s"]).epoch == 0
        control.change(
            lambda state: [
                ("run", RunInfo(epoch=4, id="r", began=1, claims=((4, 9),))),
                ("reader", ReaderState(run="c", plan={"ids": {"t": ["a", "b"]}}, begun=0)),
                ("sink/s", SinkState()),
                ("edit/3", Edit(data={"for": "all"})),
                ("edit/3/s", Edit(data={"for": "s"})),
            ]
        )
        work = SinkWork.of(control, pipeline.sinks["s"])
        assert (work.pipeline, work.topic, work.epoch, work.claims) == ("p", log_topic("p"), 4, ((4, 9),))
        assert (work.ids, work.edits) == ({"t": ("a", "b")}, {3: {"for": "s"}})
        assert SinkWork.of(control, pipeline.sinks["o"], 5).edits == {3: {"for": "all"}}
        assert SinkWork.of(control, pipeline.sinks["o"], 5).epoch == 5
        with pytest.raises(Fenced, match="A newer run of p"):
            SinkWork.of(control, pipeline.sinks["o"], 3)
        assert pickle.loads(pickle.dumps(work)).sink.name == "s"
        part = work.part(control.identity(), 5, 9, bucket=1, buckets=2)
    assert part.pipeline.startswith("p#")
    assert (part.sink, part.start, part.end, part.bucket, part.buckets, part.epoch, part.timeout) == ("s", 5, 9, 1, 2, 4, 7.0)
    assert part.attempt != work.part("p#1", 5, 9).attempt != ""
    assert work.part("p#1", 5, 9, attempt="same").attempt == "same"


def test_the_columns_that_a_part_needs_come_back_from_a_task() -> None:
    kind = ColumnType("object", fields={"a": ColumnType("list", item=ColumnType("decimal", whole=20, scale=18, exact=True))})
    outcome = Outcome(start=0, end=9, acked=3, needs=ColumnNeeds("t", {"v": kind}, {"v": 3}, ("_id",)))
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome
