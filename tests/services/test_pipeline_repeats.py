"""Several messages of one row in a copy or in changes: whichever task is quicker, a database keeps what the newest of them says.

The tasks run here, the last one first, as where all others are held up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from sql_ground import SERVERS, Ground, a_ground

from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline, python, remap
from headwater.pipeline.adaptors import file, headwater
from headwater.pipeline.adaptors import kafka as kafka_topics
from headwater.pipeline.message import Message
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.preflight import preflight
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.running import delivery_loop, reader
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.part_delivery import deliver_part
from headwater.pipeline.running.run import Run
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.sink_adaptor import CanWrite, Part
from headwater.pipeline.source_adaptor import CanRead
from headwater.pipeline.transform import Transform
from headwater.spark.small import SMALL, Place
from headwater.testing.log_ground import fresh

COUNT = 3 * SMALL
ROWS = 700


@pytest.fixture(params=SERVERS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with a_ground(request) as made:
        yield made


class Delivery:
    """A log, and a run of a pipeline from a source to the table t."""

    def __init__(self, log: Log, folder: Path) -> None:
        self.log, self.folder = log, folder
        self.tasks: list[int] = []  # how many each delivery had

    def run(self, source: CanRead, sink: CanWrite, *transforms: Transform, namespace: str = "^t$") -> None:
        """The sink comes when the log has everything, so that what goes side by side depends on no speed."""
        pipeline = Pipeline(fresh("p"))
        messages = pipeline.source("in", source, namespace=namespace)
        messages.save("lines", file(str(self.folder / "lines.jsonl"), envelope=True))
        settings = Settings(data=self.folder / "data", spark=SparkSettings(start="lazy", master="local[2]"))
        assert Run(pipeline, self.log, settings).go().state == "done"
        self.tasks.clear()
        messages.transform(*transforms).save("table", sink, parallelism=2)
        assert Run(pipeline, self.log, settings).go().state == "done"
        assert compare(PipelineOperations(self.log, pipeline.name), pipeline, "table").equal

    def last_first(self, engine: Engine, work: SinkWork, parts: Sequence[Part], *, batch: int) -> list[Outcome]:
        self.tasks.append(len(parts))
        return [deliver_part(self.log, work, part, batch=batch) for part in reversed(parts)][::-1]


@pytest.fixture
def delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Delivery]:
    with EmbeddedLog(tmp_path / "data") as log:
        made = Delivery(log, tmp_path)
        monkeypatch.setattr(delivery_loop, "place", lambda count, spark: Place.SPARK if count >= SMALL // 2 else Place.HERE)
        monkeypatch.setattr(reader, "place", lambda *args, **more: Place.HERE)
        monkeypatch.setattr(Engine, "deliver_parts", lambda self, *args, **more: made.last_first(self, *args, **more))
        yield made


@pytest.mark.service("kafka")
def test_a_topic_whose_keys_repeat(kafka: str, ground: Ground, delivery: Delivery) -> None:
    admin, topic = AdminClient({"bootstrap.servers": kafka}), fresh("t")  # kept while its answer is waited for
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer, wanted = Producer({"bootstrap.servers": kafka}), dict[int, int]()
    for number in range(COUNT):
        row = number * 31 % ROWS
        if number % 9:
            wanted[row] = number
            producer.produce(topic, json.dumps({"_id": row, "n": number}), str(row))
        else:
            wanted.pop(row, None)
            producer.produce(topic, None, str(row))
    assert producer.flush(60) == 0
    delivery.run(kafka_topics(kafka), ground.sink(create=True), remap({topic: "t"}), namespace=f"^{topic}$")
    assert sorted(ground.all("SELECT _id, n FROM t")) == sorted(wanted.items())
    assert max(delivery.tasks) == 2


def rows(*, with_id: bool = True) -> Iterator[str]:
    """Documents with ids of their own, several of which are one row of a table whose key is `mail`."""
    for number in range(COUNT):
        yield json.dumps(({"_id": number} if with_id else {}) | {"mail": f"m{number * 31 % ROWS}", "n": number})


def is_newest(ground: Ground) -> bool:
    wanted = {f"m{number * 31 % ROWS}": number for number in range(COUNT)}
    return sorted(ground.all("SELECT mail, n FROM t")) == sorted(wanted.items())


def recased(message: Message) -> Message:
    message.data["mail"] = message.data["mail"].lower()
    return message


@pytest.mark.parametrize(
    ("with_id", "id", "transforms", "tasks"),
    [
        pytest.param(True, "_id", [], 1, id="another id"),
        pytest.param(False, "_id", [], 1, id="no id"),
        pytest.param(True, "_id", [python(recased, keeps_id=True)], 1, id="a key that may change"),
        pytest.param(True, "mail", [], 2, id="the key is the id"),
    ],
)
def test_a_table_with_a_key_that_is_not_the_id(
    ground: Ground, delivery: Delivery, with_id: bool, id: str, transforms: list[Transform], tasks: int
) -> None:
    ground.run("CREATE TABLE t (_id bigint, mail varchar(40) PRIMARY KEY, n bigint)")
    (delivery.folder / "t.jsonl").write_text("".join(f"{row}\n" for row in rows(with_id=with_id)))
    delivery.run(file(str(delivery.folder / "t.jsonl"), id=id), ground.sink(), *transforms)
    assert is_newest(ground)
    assert max(delivery.tasks) == tasks


@pytest.mark.parametrize(("id", "warned"), [("_id", True), ("mail", False)])
def test_preflight_warns_of_a_table_with_a_key_that_is_not_the_id(ground: Ground, tmp_path: Path, id: str, warned: bool) -> None:
    ground.run("CREATE TABLE t (_id bigint, mail varchar(40) PRIMARY KEY, n bigint)")
    (tmp_path / "t.jsonl").write_text(next(rows()))
    pipeline = Pipeline("p")
    pipeline.source("in", file(str(tmp_path / "t.jsonl"), id=id)).save("table", ground.sink())
    warnings = preflight(pipeline)["warnings"]
    assert [f"the key of {ground.name}.t is (mail)" in warning for warning in warnings] == [True] * warned


@pytest.mark.parametrize(("id", "tasks"), [("_id", 1), ("mail", 2)])
def test_changes_of_a_table_with_a_key_that_is_not_the_id(ground: Ground, delivery: Delivery, id: str, tasks: int) -> None:
    ground.run("CREATE TABLE t (_id bigint, mail varchar(40) PRIMARY KEY, n bigint)")
    delivery.log.create_topic("t")
    delivery.log.append("t", 0, [Record(None, row.encode()) for row in rows()])
    delivery.run(headwater(str(delivery.folder / "data"), topic="t", id=id), ground.sink())
    assert is_newest(ground)
    assert max(delivery.tasks) == tasks
