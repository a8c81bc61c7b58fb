"""Pipelines whose log is Kafka."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.core.errors import Conflict, Fenced
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.kafka.log import KafkaLog
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.adaptors import kafka as kafka_topics
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import log_topic
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.running.run import Run
from headwater.testing.log_ground import fresh

pytestmark = pytest.mark.service("kafka")


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as log:
        yield log


def written(folder: Path, count: int) -> Path:
    path = folder / "in.jsonl"
    path.write_text("".join(f'{{"_id":{n},"text":"message {n}"}}\n' for n in range(count)))
    return path


def defined(folder: Path, name: str) -> Pipeline:
    pipeline = Pipeline(name)
    rows = pipeline.source("in", file(str(folder / "in.jsonl")))
    rows.save("folder", file(f"{folder}/out/"))
    rows.save("table", sqlite(str(folder / "out.db"), table="t"))
    return pipeline


def lines(folder: Path) -> list[str]:
    return sorted(line for part in (folder / "out").glob("part-*") for line in part.read_text().splitlines())


def test_a_pipeline_runs_on_kafka_and_a_second_run_finds_nothing_to_do(log: Log, tmp_path: Path) -> None:
    source, name = written(tmp_path, 1000), fresh("p")
    settings = Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))
    result = Run(defined(tmp_path, name), log, settings).go()
    assert result.state == "done"
    assert lines(tmp_path) == sorted(source.read_text().splitlines())
    again = Run(defined(tmp_path, name), log, settings).go()
    assert (again.read, [one.written for one in again.sinks]) == (0, [0, 0])
    assert len(lines(tmp_path)) == 1000


def test_a_folder_that_was_begun_with_a_log_on_kafka_is_not_finished_with_another(log: Log, tmp_path: Path) -> None:
    """Every document would be there twice."""
    written(tmp_path, 100)
    name, settings = fresh("p"), Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))
    assert Run(defined(tmp_path, name), log, settings).go().state == "done"
    with EmbeddedLog(tmp_path / "data") as other:
        with pytest.raises(Conflict, match="whose log is at kafka://"):
            Run(defined(tmp_path, name), other, settings).go()
        assert len(lines(tmp_path)) == 100
        assert Run(defined(tmp_path, name), other, settings, take_over=["folder", "table"]).go().state == "done"
    assert len(lines(tmp_path)) == 100
    assert len(list((tmp_path / "out").glob("earlier-*"))) == 1


def test_positions_states_and_words_of_an_operator_are_kept_in_kafka(log: Log, tmp_path: Path) -> None:
    written(tmp_path, 20)
    with closing(sqlite3.connect(tmp_path / "out.db")) as db, db:
        db.execute("create table t (_id integer primary key check (_id <> 14), text)")
    name, settings = fresh("p"), Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))
    assert Run(defined(tmp_path, name), log, settings).go().state == "stopped"
    operator = PipelineOperations(log, name, who="ann")
    assert operator.sink("table").stopped
    assert next(operator.show(operator.sink("table").position + 1)).data["_id"] == 14
    operator.edit(operator.sink("table").position + 1, {"_id": 140, "text": "mended"}, why="a number that is refused")
    assert Run(defined(tmp_path, name), log, settings).go().state == "done"
    with closing(sqlite3.connect(tmp_path / "out.db")) as db, db:
        assert db.execute("select count(*), max(_id) from t").fetchone() == (20, 140)
    before = log.bounds(f"{log_topic(name)}-offsets", 0)
    operator.compact()
    assert log.bounds(f"{log_topic(name)}-offsets", 0).start > before.start
    assert [one.what for one in PipelineOperations(log, name).audit()] == ["edit", "compact"]


def followed(folder: Path, servers: str, name: str) -> Pipeline:
    """A pipeline from a topic that is followed, so that it does not end by itself."""
    admin = AdminClient({"bootstrap.servers": servers})  # kept while its answer is waited for
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(50):
        producer.produce(name, b'{"_id":%d,"text":"message"}' % number)
    assert producer.flush(30) == 0
    pipeline = Pipeline(name)
    pipeline.source("in", kafka_topics(servers, tail=True), namespace=f"^{name}$").save("table", sqlite(str(folder / "out.db"), table="t"))
    return pipeline


def test_a_newer_run_takes_over_and_the_older_one_ends(kafka: str, log: Log, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "out.db")) as db, db:
        db.execute("create table t (_id integer primary key check (_id <> 30), text)")
    name, settings = fresh("p"), Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))
    problems: list[BaseException] = []
    pipeline = followed(tmp_path, kafka, name)
    older = Run(pipeline, log, settings, follow=True)  # stands at message 30 and waits for an operator

    def go() -> None:
        try:
            older.go()
        except Fenced as error:
            problems.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    stopped = threading.Event()
    while not stopped.wait(0.05):
        try:
            if PipelineOperations(log, name).sink("table").stopped:
                break
        except Exception:
            assert thread.is_alive()
    with KafkaLog(kafka) as other:
        assert Run(pipeline, other, settings).go().state == "stopped"
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(problems[0], Fenced)
