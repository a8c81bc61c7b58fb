"""Stepping by hand: what counts as taken has been written, whatever the sink held before; and every step is in the audit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.clock import SystemClock
from headwater.core.errors import Stopped
from headwater.core.settings import Settings, Spark
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.state import RunInfo, SinkState
from headwater.pipeline.operating.hands import Hands
from headwater.pipeline.operating.operator import Operator


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic(log_topic("p"))
        writer = log.claim(log_topic("p"), 0)
        writer.append([Record(b"t", b'{"_id":%d}' % number) for number in range(5)])
        run = RunInfo(epoch=writer.epoch, id="r", began=0, state="stopped")
        Control.create(log, "p", SystemClock()).change(lambda state: [("run", run), ("sink/s", SinkState())])
        yield log


@pytest.fixture
def hands(log: Log, tmp_path: Path) -> Hands:
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).save("s", sqlite(str(tmp_path / "s.db"), table="t"))
    return Hands(Operator(log, "p"), pipeline, "s", Settings(spark=Spark(start="never")))


def rows(folder: Path, statement: str = "select _id from t order by 1") -> list[int]:
    with sqlite3.connect(folder / "s.db") as db:
        return [row[0] for row in db.execute(statement)]


def test_what_an_operator_takes_back_is_written_again(log: Log, hands: Hands, tmp_path: Path) -> None:
    assert hands.step(5) == 5
    assert rows(tmp_path) == [0, 1, 2, 3, 4]
    rows(tmp_path, "delete from t where _id >= 3")
    Operator(log, "p").mark("s", 2, why="lost")
    assert hands.step(10) == 2
    assert rows(tmp_path) == [0, 1, 2, 3, 4]
    assert hands.step() == 0


def test_every_step_that_delivers_is_audited(log: Log, hands: Hands, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "s.db") as db:
        db.execute("create table t (_id integer primary key check (_id <> 1))")
    assert hands.step(why="first") == 1
    with pytest.raises(Stopped, match="refuses message 1"):
        hands.step(why="second")
    Operator(log, "p").ack("s", 1, why="skip")
    assert hands.step(9, why="rest") == 3
    assert hands.step(why="nothing is left") == 0
    assert [(entry.what, entry.why, entry.details.get("offset")) for entry in Operator(log, "p").audit()] == [
        ("step", "first", 0),
        ("step", "second", 1),
        ("ack", "skip", 1),
        ("step", "rest", 2),
    ]


def test_a_sink_below_another_is_given_only_what_that_one_has_taken(log: Log, tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    rows_of = pipeline.source("in", file("in.jsonl")).save("s", sqlite(str(tmp_path / "s.db"), table="t"))
    rows_of.save("below", sqlite(str(tmp_path / "below.db"), table="t"))
    operator = Operator(log, "p")
    operator.control.change(lambda state: [("sink/below", SinkState())])
    settings = Settings(spark=Spark(start="never"))
    above, below = Hands(operator, pipeline, "s", settings), Hands(operator, pipeline, "below", settings)
    assert below.step(9) == 0
    assert above.step(2) == 2
    assert below.step(9) == 2
    assert operator.sink("below").position == 1
