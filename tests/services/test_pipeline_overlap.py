"""A pipeline whose sink is what it reads, under another address, another name or an alias: refused before anything is written."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pika
import psycopg
import pymysql
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from mongodb_ground import a_database
from s3_ground import Store
from tools.services.s3 import PASSWORD, USER

from headwater.adaptors.mysql.connection import parsed
from headwater.core.errors import BadConfig
from headwater.core.settings import Settings, SparkSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.kafka.log import KafkaLog
from headwater.pipeline import Pipeline, remap
from headwater.pipeline import adaptors as a
from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.operating.preflight import preflight
from headwater.pipeline.running.run import Run
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.transform import Transform
from headwater.testing.log_ground import fresh

NAME = f"t{uuid.uuid4().hex[:10]}"


def elsewhere(address: str) -> str:
    """The same server by another name."""
    assert "127.0.0.1" in address
    return address.replace("127.0.0.1", "localhost")


class Ground:
    """Pipelines in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pipeline(self, source: Adaptor, sink: CanWrite, namespace: str, *transforms: Transform) -> Pipeline:
        pipeline = Pipeline(fresh("p"))
        pipeline.source("in", source, namespace=namespace).transform(*transforms).save("out", sink)
        return pipeline

    def run(self, pipeline: Pipeline) -> str:
        """How the run ended, or why it was refused."""
        with EmbeddedLog(self._folder / "data") as log:
            try:
                return Run(pipeline, log, Settings(data=self._folder / "data", spark=SparkSettings(start="never"))).go().state
            except BadConfig as error:
                return error.message

    def refuses(self, source: Adaptor, sink: CanWrite, namespace: str, *transforms: Transform) -> bool:
        """Whether both the run and `test` refuse it."""
        pipeline = self.pipeline(source, sink, namespace, *transforms)
        said = {one["name"]: one["said"] for one in preflight(pipeline)["checks"] if not one["ok"]}
        ran = self.run(pipeline)
        assert ("which the same pipeline reads" in ran) == ("which the same pipeline reads" in said.get("out", "")), (ran, said)
        return "which the same pipeline reads" in ran


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def test_a_table_of_postgres_is_the_same_one_by_another_address_and_through_a_view(postgres: str, ground: Ground) -> None:
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute(f"CREATE SCHEMA {NAME}")
        try:
            db.execute(f"CREATE TABLE {NAME}.a (id int PRIMARY KEY, n int)")
            db.execute(f"CREATE TABLE {NAME}.b (id int PRIMARY KEY, n int)")
            db.execute(f"CREATE VIEW {NAME}.v AS SELECT * FROM {NAME}.a")
            db.execute(f"INSERT INTO {NAME}.a VALUES (1, 1)")
            source, sink = a.postgres(postgres), a.postgres(elsewhere(postgres), state_schema=NAME)
            chosen = rf"^{NAME}\.a$"
            assert ground.refuses(source, sink, chosen)
            assert ground.refuses(source, sink, chosen, remap({f"{NAME}.a": f"{NAME}.v"}))
            assert not ground.refuses(source, sink, chosen, remap({f"{NAME}.a": f"{NAME}.b"}))
            assert db.execute(f"SELECT * FROM {NAME}.b").fetchall() == [(1, 1)]
        finally:
            db.execute(f"DROP SCHEMA {NAME} CASCADE")


def test_a_table_of_mariadb_is_the_same_one_by_another_address(mariadb: str, ground: Ground) -> None:
    where = parsed(mariadb)
    with pymysql.connect(host="127.0.0.1", port=where.port, user=where.user, password=where.password, autocommit=True) as db:
        with db.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {NAME}")
            try:
                cursor.execute(f"CREATE TABLE {NAME}.a (id int PRIMARY KEY, n int)")
                cursor.execute(f"CREATE TABLE {NAME}.b (id int PRIMARY KEY, n int)")
                cursor.execute(f"CREATE VIEW {NAME}.v AS SELECT * FROM {NAME}.a")
                cursor.execute(f"INSERT INTO {NAME}.a VALUES (1, 1)")
                uri = mariadb.rsplit("/", 1)[0] + f"/{NAME}"
                source, sink, chosen = a.mysql(uri), a.mysql(elsewhere(uri)), rf"^{NAME}\.a$"
                assert ground.refuses(source, sink, chosen)
                assert ground.refuses(source, sink, chosen, remap({f"{NAME}.a": f"{NAME}.v"}))
                assert not ground.refuses(source, sink, chosen, remap({f"{NAME}.a": f"{NAME}.b"}))
                cursor.execute(f"SELECT * FROM {NAME}.b")
                assert cursor.fetchall() == ((1, 1),)
                followed = a.mysql(uri, tail=True)  # a table that the sink creates would be followed, too
                assert ground.refuses(followed, a.mysql(uri, create=True), rf"^{NAME}\.", remap({f"{NAME}.a": f"{NAME}.new"}))
                cursor.execute(f"CREATE DATABASE {NAME}_copy")  # the namespace matches its name, too, but the source reads one database
                copies = a.mysql(f"{uri}_copy", create=True)
                assert not ground.refuses(followed, copies, f"^{NAME}", remap({rf"^{NAME}\.": f"{NAME}_copy."}, regex=True))
            finally:
                cursor.execute(f"DROP DATABASE {NAME}")
                cursor.execute(f"DROP DATABASE IF EXISTS {NAME}_copy")


def test_a_collection_is_the_same_one_by_another_address(mongodb: str, ground: Ground) -> None:
    with a_database(mongodb) as database:
        database["a"].insert_one({"_id": 1, "n": 1})
        source, sink = a.mongodb(f"{mongodb}/{database.name}"), a.mongodb(f"{elsewhere(mongodb)}/{database.name}")
        assert ground.refuses(source, sink, "^a$")
        assert not ground.refuses(source, sink, "^a$", remap({"a": "b"}))
        assert list(database["b"].find()) == [{"_id": 1, "n": 1}]
        assert not ground.refuses(source, a.mongodb(f"{mongodb}/{database.name}x"), "^a$")
        database.client.drop_database(f"{database.name}x")


def test_an_index_is_the_same_one_by_another_address_and_by_an_alias(opensearch: str, ground: Ground) -> None:
    with a.opensearch(opensearch).connect() as client:
        client.ask("PUT", f"/{NAME}", body={"aliases": {f"{NAME}-alias": {}}})
        try:
            client.ask("PUT", f"/{NAME}/_doc/1", params={"refresh": "true"}, body={"n": 1})
            source = a.opensearch(opensearch)
            assert ground.refuses(source, a.opensearch(elsewhere(opensearch)), f"^{NAME}$")
            assert ground.refuses(source, a.opensearch(elsewhere(opensearch), index=f"{NAME}-alias"), f"^{NAME}$")
            assert not ground.refuses(source, a.opensearch(opensearch, index=f"{NAME}-copy"), f"^{NAME}$")
            client.ask("POST", f"/{NAME}-copy/_refresh")
            assert client.get(f"/{NAME}-copy/_count")["count"] == 1
        finally:
            client.ask("DELETE", f"/{NAME}*")


@pytest.fixture
def topics(kafka: str) -> Iterator[tuple[str, str]]:
    admin = AdminClient({"bootstrap.servers": kafka})
    names = fresh("a"), fresh("b")
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(names[0], b'{"_id": 1}')
    assert producer.flush(30) == 0
    yield names
    admin.delete_topics(list(names))


def test_a_topic_is_the_same_one_by_another_address_and_as_the_log_of_a_pipeline(
    kafka: str, topics: tuple[str, str], ground: Ground, tmp_path: Path
) -> None:
    first, second = topics
    source, sink = a.kafka(kafka), a.kafka(elsewhere(kafka))
    assert ground.refuses(source, sink, f"^{first}$")
    assert ground.refuses(source, a.headwater(f"kafka://{elsewhere(kafka)}", topic=first), f"^{first}$")
    assert not ground.refuses(source, a.kafka(kafka, topic=second), f"^{first}$")
    pipeline = ground.pipeline(a.kafka(kafka, tail=True), a.file(f"{tmp_path}/out.jsonl"), "^pipeline-p")
    with KafkaLog(kafka) as log, pytest.raises(BadConfig, match="would read its own log"):
        Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")), follow=True).go()


def test_a_prefix_is_the_same_one_by_another_address(s3: str, ground: Ground) -> None:
    store = Store(s3)
    store.put("in/a.jsonl", b'{"_id": 1}\n')
    options: dict[str, Any] = {"endpoint_url": elsewhere(s3), "access_key": USER, "secret_key": PASSWORD}
    assert ground.refuses(store.adaptor(), a.s3(f"s3://{store.bucket}/in/", **options), ".*")
    assert ground.refuses(store.adaptor(), a.s3(f"s3://{store.bucket}/in/copy", **options), ".*")
    assert store.keys() == ["in/a.jsonl"]
    assert not ground.refuses(store.adaptor(), a.s3(f"s3://{store.bucket}/in-copy/", **options), ".*")
    pipeline = ground.pipeline(store.adaptor(), store.adaptor("one/"), ".*")
    pipeline.add(msgspec.structs.replace(pipeline.sinks["out"], name="more", adaptor=a.s3(f"s3://{store.bucket}/one", **options)))
    assert "would write to the same place" in ground.run(pipeline)


def test_a_queue_is_the_same_one_by_another_address(rabbitmq: str, ground: Ground) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq))
    channel = connection.channel()
    try:
        for name in ("a", "b"):
            channel.queue_declare(f"{NAME}-{name}", durable=True)
        channel.basic_publish("", f"{NAME}-a", json.dumps({"n": 1}).encode())
        source, sink = a.rabbitmq(rabbitmq, queues=[f"{NAME}-a"]), a.rabbitmq(elsewhere(rabbitmq))
        assert ground.refuses(source, sink, ".*")
        assert ground.refuses(source, a.rabbitmq(rabbitmq, routing_key=f"{NAME}-a"), ".*")
        channel.basic_publish("", f"{NAME}-a", json.dumps({"n": 1}).encode())  # a run that is refused may have read the first one
        assert not ground.refuses(source, a.rabbitmq(rabbitmq, routing_key=f"{NAME}-b"), ".*")
        assert channel.basic_get(f"{NAME}-b", auto_ack=True)[2] == b'{"n":1}'
    finally:
        for name in ("a", "b"):
            channel.queue_delete(f"{NAME}-{name}")
        connection.close()
