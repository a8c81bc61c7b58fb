"""What a run gives to Spark, and what it does where Spark may not be started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from headwater.core.errors import BadConfig, Cancelled, Unavailable, UnknownTopic, Unsupported
from headwater.core.settings import SparkSettings
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Sink
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.running.engine import RESULT, Engine, result_table
from headwater.pipeline.running.pieces import CopyWork
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.spark import session
from headwater.spark.lazy import LazySpark
from headwater.spark.ranges import Range
from headwater.spark.starting import SPECULATION


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t")
        yield log


def test_a_transform_that_needs_spark_is_told_where_it_is_not_started(log: Log) -> None:
    engine = Engine(log, SparkSettings(start="never"), stopping=threading.Event())
    with pytest.raises(Unsupported, match="A transform needs Spark") as told:
        engine.start()
    assert "from the command line with --file FILE" in told.value.hint


def test_what_tasks_send_back_is_one_small_row() -> None:
    table = result_table(Outcome(start=1, end=5, acked=3))
    assert table.schema.equals(RESULT)
    assert table.num_rows == 1
    assert isinstance(table, pa.RecordBatch)


def test_only_a_local_copy_keeps_others_waiting(log: Log) -> None:
    local = Engine(log, SparkSettings(master="local[2]"), stopping=threading.Event())
    assert local.free(0)
    cluster = Engine(log, SparkSettings(master="spark://h:7077"), stopping=threading.Event())
    assert cluster.free(0)


@pytest.mark.parametrize(("master", "error"), [("local[2]", UnknownTopic), ("spark://h:7077", BadConfig)])
def test_an_embedded_log_that_tasks_of_a_cluster_do_not_see_is_told_as_that(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, error: type[Exception]
) -> None:
    class Blind:
        """Its tasks open the same path on a machine that has nothing there."""

        session = None

        def run(self, *args: object, **more: object) -> None:
            with EmbeddedLog(tmp_path / "worker", read_only=True) as other:
                other.bounds("t", 0)

    monkeypatch.setattr(LazySpark, "runner", lambda self: Blind())
    engine = Engine(log, SparkSettings(master=master), stopping=threading.Event())
    work = SinkWork(pipeline="p", topic="t", sink=Sink(name="s", adaptor=sqlite("x.db"), namespaces=Namespaces()), epoch=1)
    with pytest.raises(error):
        engine.deliver_parts(work, [work.part("p#1", 0, 1)], batch=1)


@pytest.mark.parametrize(("stopping", "error"), [(False, Unavailable), (True, Cancelled)])
def test_a_spark_that_is_stopped_together_with_the_run_is_no_failure(
    log: Log, monkeypatch: pytest.MonkeyPatch, stopping: bool, error: type[Exception]
) -> None:
    class Ended:
        session = None

        def run(self, *args: object, **more: object) -> None:
            raise Unavailable("Spark's process has ended.")

    monkeypatch.setattr(LazySpark, "runner", lambda self: Ended())
    stop = threading.Event()
    engine = Engine(log, SparkSettings(master="local[2]"), stopping=stop)
    work = SinkWork(pipeline="p", topic="t", sink=Sink(name="s", adaptor=sqlite("x.db"), namespaces=Namespaces()), epoch=1)
    if stopping:
        stop.set()
    with pytest.raises(Unavailable) as raised:
        engine.deliver_parts(work, [work.part("p#1", 0, 1)], batch=1)
    assert type(raised.value) is error


def test_tasks_of_a_cluster_try_once_for_each_sink_and_run_whether_the_run_sees_what_they_write(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Here:
        """Its tasks are called here."""

        session = None
        tasks: ClassVar[list[int]] = []

        def run(self, ranges: list[Range], worker: Callable[[Log, Range], pa.RecordBatch], **more: object) -> list[pa.Table]:
            self.tasks.append(len(ranges))
            return [pa.Table.from_batches([worker(log, one)]) for one in ranges]

    log.append("t", 0, [Record(b"x", b'{"_id":1}')])
    monkeypatch.setattr(LazySpark, "runner", lambda self: Here())
    engine = Engine(log, SparkSettings(master="spark://h:7077"), stopping=threading.Event())
    adaptor = file(f"{tmp_path}/out/")
    work = SinkWork(pipeline="p", topic="t", sink=Sink(name="s", adaptor=adaptor, namespaces=Namespaces()), epoch=1)
    adaptor.begin("p#1", "s", 1)
    for _ in range(2):
        [outcome] = engine.deliver_parts(work, [work.part("p#1", 0, 1)], batch=1)
        assert outcome.acked == 1
    assert Here.tasks == [engine.spark.cores, 1, 1]
    assert not list((tmp_path / "out" / ".headwater").glob("*.probe"))


@pytest.mark.spark
def test_slices_are_copied_and_parts_delivered_in_tasks(log: Log, tmp_path: Path) -> None:
    started = session(SparkSettings(master="local[2]"), archive="use")
    engine = Engine(log, SparkSettings(master="local[2]"), stopping=threading.Event())
    try:
        writer = log.claim("t", 0)
        source = tmp_path / "in"
        source.mkdir()
        for n in range(2):
            (source / f"{n}.jsonl").write_text("".join(f'{{"_id":{10 * n + i}}}\n' for i in range(10)))
        adaptor = file(f"{source}/")
        pipeline = Pipeline("p")
        pipeline.source("in", adaptor).save("s", sqlite(str(tmp_path / "s.db"), table="t"))
        plan = adaptor.plan(pipeline.namespaces, 2)  # type: ignore[attr-defined]
        work = CopyWork(
            pipeline="p",
            topic="t",
            adaptor=adaptor,  # type: ignore[arg-type]
            slices=dict(enumerate(plan.slices)),
            copy="c",
            epoch=writer.epoch,
            ids=plan.ids,
            progress={},
            since=0,
            most=1 << 20,
        )
        copied = engine.copy(work, {0: [0], 1: [1]})
        assert sum(one.records for one in copied) == log.bounds("t", 0).end == 20
        assert engine.free(0)  # the copy is over
        sink = pipeline.sinks["s"]
        made = SinkWork(pipeline="p", topic="t", sink=sink, epoch=writer.epoch)
        sink.adaptor.begin("p#1", "s", writer.epoch)
        outcomes = engine.deliver_parts(made, [made.part("p#1", 0, 9), made.part("p#1", 9, 20)], batch=100)
        assert [(one.start, one.acked, one.written) for one in outcomes] == [(0, 9, 9), (9, 20, 11)]
    finally:
        engine.spark.close()
        started.stop()


@pytest.mark.spark
def test_a_session_that_speculates_gets_no_tasks(log: Log) -> None:
    started = session(SparkSettings(master="local[2]"), archive="use")
    started.sparkContext._conf.set(SPECULATION, "true")  # as a session that somebody else has started
    engine = Engine(log, SparkSettings(master="local[2]"), stopping=threading.Event())
    pipeline = Pipeline("p")
    pipeline.source("s", file("in.jsonl")).save("db", sqlite("o.db"))
    work = SinkWork(pipeline="p", topic="t", sink=pipeline.sinks["db"], epoch=1)
    try:
        with pytest.raises(BadConfig, match="twice at the same time"):
            engine.deliver_parts(work, [work.part("p", 0, 1)], batch=1)
    finally:
        started.sparkContext._conf.set(SPECULATION, "false")
