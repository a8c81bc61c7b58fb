"""Pipelines whose log is Kafka and whose tasks run on a Spark cluster: the same definitions as on one machine."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from quick_spark import quick

from headwater.core.errors import BadConfig
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.log.kafka.log import KafkaLog
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.loading import load_pipeline
from headwater.pipeline.running.run import Result, Run
from headwater.pipeline.running.sql_delivery import SqlDelivery
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.sink_adaptor import CanWrite, Part
from headwater.pipeline.source_adaptor import CanCopy
from headwater.testing.log_ground import fresh

pytestmark = [pytest.mark.service("kafka", "spark"), pytest.mark.spark]

COUNT = 22_000
IN_A_FILE = """
from headwater.pipeline import Pipeline, python, sql
from headwater.pipeline.adaptors import file

def odd(message):
    message.data["odd"] = message.data["_id"] % 2
    return message

p = Pipeline({name!r})
p.source("in", file("in.jsonl")).transform(python(odd, keeps_id=True), sql("*, _id * 2 AS twice")).save("out", file("out/"))
"""


@pytest.fixture(scope="module")
def settings(spark_master: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """One session for all tests: a process can have one, and its start takes seconds."""
    import headwater.spark

    spark = quick(spark_master, **{"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.executor.memory": "512m"})
    made = Settings(data=tmp_path_factory.mktemp("data"), spark=msgspec.structs.replace(spark, start="eager"))
    yield made
    headwater.spark.stop(headwater.spark.session(made.spark))


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as log:
        yield log


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the run, in which no worker runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for part in range(2):
        lines = (f'{{"_id":{n},"text":"message {n}"}}\n' for n in range(part, COUNT, 2))
        (tmp_path / "in" / f"{part}.jsonl").write_text("".join(lines))
    return tmp_path


def ran(log: Log, settings: Settings, source: CanCopy, *sinks: CanWrite) -> Result:
    pipeline = Pipeline(fresh("p"))
    rows = pipeline.source("in", source)
    for number, sink in enumerate(sinks):
        rows.save(f"sink-{number}", sink)
    return Run(pipeline, log, settings).go()


def lines(folder: Path) -> list[str]:
    return sorted(line for part in folder.glob("part-*") for line in part.read_text().splitlines())


def test_relative_paths_mean_the_folder_of_the_run(log: Log, settings: Settings, folder: Path) -> None:
    result = ran(log, settings, file("in/"), file("out/"), sqlite("out.db", table="t"))
    assert (result.state, result.read) == ("done", COUNT)
    assert lines(folder / "out") == lines_of(folder / "in")
    with closing(sqlite3.connect(folder / "out.db")) as db, db:
        assert db.execute("select count(*), count(distinct _id) from t").fetchone() == (COUNT, COUNT)


def lines_of(folder: Path) -> list[str]:
    return sorted(line for part in folder.iterdir() for line in part.read_text().splitlines())


@pytest.mark.parametrize("sink", ["file", "sqlite"])
def test_a_target_that_tasks_do_not_see_is_refused_before_anything_is_written(
    log: Log, settings: Settings, folder: Path, sink: str
) -> None:
    """The folder of a process: each worker sees its own there."""
    target = {"file": file("/proc/self/cwd/out/"), "sqlite": sqlite("/proc/self/cwd/out.db", table="t")}[sink]
    with pytest.raises(BadConfig, match="sees other files there than the run") as refused:
        ran(log, settings, file("in/"), target)
    assert "S3" in refused.value.hint
    assert lines(folder / "out") == []
    if sink == "sqlite":
        with closing(sqlite3.connect(folder / "out.db")) as db, db:
            assert not db.execute("select 1 from sqlite_master where name = 't'").fetchall()


def test_a_source_that_tasks_do_not_see_is_refused(log: Log, settings: Settings, folder: Path) -> None:
    with pytest.raises(BadConfig, match=r"Source in reads .* and the tasks of Spark see other files there"):
        ran(log, settings, file("/proc/self/cwd/in/"), file("out/"))
    assert lines(folder / "out") == []


def test_sql_is_evaluated_in_the_tasks_of_a_cluster(log: Log, settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a function of the pipeline's own file before it, which no worker can import."""
    in_tasks: list[int] = []
    deliver = SqlDelivery.deliver_in_tasks

    def seen(self: SqlDelivery, work: SinkWork, parts: Sequence[Part], *, batch: int) -> list[Outcome] | None:
        outcomes = deliver(self, work, parts, batch=batch)
        in_tasks.append(sum(one.written for one in outcomes or () if one.stop is None))
        return outcomes

    monkeypatch.setattr(SqlDelivery, "deliver_in_tasks", seen)
    (folder / "in.jsonl").write_text("\n".join(lines_of(folder / "in")) + "\n")
    (folder / "p.py").write_text(IN_A_FILE.format(name=fresh("p")))
    assert Run(load_pipeline("p.py"), log, settings).go().state == "done"
    assert sum(in_tasks) == COUNT
    found = sorted(map(json.loads, lines(folder / "out")), key=lambda one: one["_id"])
    assert found == [{"_id": n, "text": f"message {n}", "odd": n % 2, "twice": 2 * n} for n in range(COUNT)]
