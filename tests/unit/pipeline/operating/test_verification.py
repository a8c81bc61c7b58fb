"""Comparing a sink with the log: what an operator has kept from it is not expected there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headwater.core.clock import SystemClock
from headwater.core.errors import Rejected
from headwater.core.settings import Settings, SparkSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline import python
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Dead, RunInfo, SinkState
from headwater.pipeline.operating.manual_delivery import ManualDelivery
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.running.run import Run


def test_a_sink_without_what_was_skipped_passed_over_and_dropped_is_as_it_should_be(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).save("s", sqlite(str(tmp_path / "s.db"), table="t"))
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic(log_topic("p"), part=PART)
        writer = log.claim(log_topic("p"), 0, part=PART)
        writer.append([Record(b"t", b'{"_id":%d}' % number) for number in range(10)])
        run = RunInfo(epoch=writer.epoch, id="r", began=0, state="stopped")
        Control.create(log, "p", SystemClock()).change(lambda state: [("run", run), ("sink/s", SinkState())])
        operator = PipelineOperations(log, "p")
        hands = ManualDelivery(operator, pipeline, "s", Settings(spark=SparkSettings(start="never")))
        assert hands.deliver_next(2) == 2
        operator.ack("s", 2, why="skip")
        operator.mark("s", 5, why="past")
        assert hands.deliver_next(2) == 2
        # The next one was put aside, and is let go.
        dead = Dead(sink="s", offset=8, error="E", message="m")
        operator.control.change(
            lambda state: [("sink/s", SinkState(position=8, generation=1, told=1)), ("dead/s/8", dead), state.counted_apart("s", (8, 9))]
        )
        assert compare(operator, pipeline, "s").equal
        operator.drop(8, why="a test")
        assert hands.deliver_next(5) == 1
        found = compare(operator, pipeline, "s")
        assert (found.equal, found.expected, found.found) == (True, 5, 5)
        hands.send_again(3, 4)
        found = compare(operator, pipeline, "s")
        assert (found.equal, found.expected, found.found) == (True, 7, 7)


def test_what_a_mark_back_and_forward_has_passed_may_be_right(tmp_path: Path) -> None:
    """The sink took the messages before: nobody is to delete them."""
    pipeline = Pipeline("p")
    (tmp_path / "in.jsonl").write_text("".join(f'{{"_id":{number}}}\n' for number in range(9)))
    pipeline.source("in", file(str(tmp_path / "in.jsonl"))).save("db", sqlite(str(tmp_path / "o.db"), table="t"))
    with EmbeddedLog(tmp_path / "data") as log:
        assert Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))).go().state == "done"
        operator = PipelineOperations(log, "p")
        operator.mark("db", 1, why="again")
        operator.mark("db", 8, why="on second thought")
        verified = compare(operator, pipeline, "db")
        assert (verified.equal, verified.missing, verified.extra, verified.passed) == (False, 0, 7, 7)
        with closing(sqlite3.connect(tmp_path / "o.db")) as db:
            db.execute("insert into t values (99)")
            db.commit()
        verified = compare(operator, pipeline, "db")
        assert (verified.extra, verified.passed, verified.surplus) == (8, 7, ['{"_id":99}'])


def test_a_message_that_a_transform_refuses_by_now_is_named(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    odd = python(lambda message: 1 / (message.data["_id"] - 3) and message)
    pipeline.source("in", file("in.jsonl")).transform(odd).save("s", file(f"{tmp_path}/o.jsonl"))
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic(log_topic("p"), part=PART)
        writer = log.claim(log_topic("p"), 0, part=PART)
        writer.append([Record(b"t", b'{"_id":%d}' % number) for number in range(5)])
        run = RunInfo(epoch=writer.epoch, id="r", began=0, state="stopped")
        Control.create(log, "p", SystemClock()).change(lambda state: [("run", run), ("sink/s", SinkState(position=4))])
        with pytest.raises(Rejected, match=r"message 3 is refused now\. Transform .* raised ZeroDivisionError") as error:
            compare(PipelineOperations(log, "p"), pipeline, "s")
        assert "headwater pipeline xlog p show 3" in error.value.hint


def test_what_a_table_held_before_it_was_emptied_is_not_expected_there(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file("in.jsonl"))
    rows.save("s", sqlite(str(tmp_path / "s.db")))
    rows.save("a", file(str(tmp_path / "a.jsonl")))
    documents = [(b"t", b'{"_id":1}'), (b"t", b'{"_id":2}'), (b"u", b'{"_id":1}')]
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic(log_topic("p"), part=PART)
        writer = log.claim(log_topic("p"), 0, part=PART)
        emptied = Record(b"t", b'{"command":"truncate"}', mode=1, op=3)
        writer.append([*(Record(*one, mode=1) for one in documents), emptied, Record(b"t", b'{"_id":2,"n":2}', mode=1)])
        run = RunInfo(epoch=writer.epoch, id="r", began=0, state="stopped")
        Control.create(log, "p", SystemClock()).change(lambda state: [("run", run), ("sink/s", SinkState()), ("sink/a", SinkState())])
        operator = PipelineOperations(log, "p")
        for sink, expected in (("s", 2), ("a", 4)):  # a file keeps all of them
            assert ManualDelivery(operator, pipeline, sink, Settings(spark=SparkSettings(start="never"))).deliver_next(5) == 5
            found = compare(operator, pipeline, sink)
            assert (found.equal, found.expected, found.found, found.first) == (True, expected, expected, "")
        with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
            db.execute("insert into t (_id) values (1)")
        found = compare(operator, pipeline, "s")
        assert (found.missing, found.extra, found.first) == (0, 1, '{"_id":1}')


def test_ids_whose_fields_are_in_another_order_are_different_rows_of_sqlite(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id":{"a":1,"b":2},"v":1}\n{"_id":{"b":2,"a":1},"v":2}\n')
    pipeline = Pipeline("p")
    pipeline.source("s", file(str(tmp_path / "in.jsonl"))).save("db", sqlite(str(tmp_path / "o.db")))
    with EmbeddedLog(tmp_path / "data") as log:
        Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))).go()
        found = compare(PipelineOperations(log, "p"), pipeline, "db")
    assert (found.equal, found.expected, found.found) == (True, 2, 2)


def test_rows_that_the_source_no_longer_has_when_it_is_read_anew_are_surplus(tmp_path: Path) -> None:
    """A copy has no deletes, and the log still holds the earlier copy."""
    source = tmp_path / "in.jsonl"
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file(str(source)))
    rows.save("db", sqlite(str(tmp_path / "o.db"), table="t"))
    rows.save("lines", file(str(tmp_path / "o.jsonl")))
    with EmbeddedLog(tmp_path / "data") as log:
        for ids in ((1, 2, 3), (1, 3)):
            source.write_text("".join(f'{{"_id":{n}}}\n' for n in ids))
            settings = Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))
            result = Run(pipeline, log, settings, again=len(ids) == 2).go()
        shop = PipelineOperations(log, "p")
        [said] = result.notices
        assert "stay at db: a copy has no deletes" in said
        assert "`headwater pipeline verify p db`" in said
        found = compare(shop, pipeline, "db")
        assert (found.equal, found.expected, found.found, found.missing, found.extra) == (False, 2, 3, 0, 1)
        assert (found.surplus, found.since) == (['{"_id":2}'], 4)
        assert compare(shop, pipeline, "lines").equal  # it holds every message
        with closing(sqlite3.connect(tmp_path / "o.db")) as db:
            db.execute("delete from t")
            db.commit()
        shop.mark("db", found.since - 1, why="the copy alone")
        assert Run(pipeline, log, settings).go().state == "done"
        assert compare(shop, pipeline, "db").equal
