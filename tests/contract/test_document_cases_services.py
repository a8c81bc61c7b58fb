"""The cases of documents over HTTP with real servers: Cassandra and the embedded log, SQLite and Kafka, Cassandra and Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headwater.core.settings import CassandraSettings, KafkaSettings, LogSettings, Settings, StoreSettings
from headwater.core.units import Duration
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.document_cases import DocumentCases


@pytest.fixture(scope="class")
def keyspace(cassandra: tuple[str, int]) -> Iterator[CassandraSettings]:
    host, port = cassandra
    name = f"documents_{uuid.uuid4().hex}"
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
    yield settings
    with Keyspace(settings) as opened:
        opened.run(f"drop keyspace {name}")


@pytest.mark.service("cassandra")
class TestEmbeddedAndCassandra(DocumentCases):
    @pytest.fixture(scope="class")
    @classmethod
    def given(cls, tmp_path_factory: pytest.TempPathFactory, keyspace: CassandraSettings) -> Settings:
        return Settings(data=tmp_path_factory.mktemp("data"), store=StoreSettings(engine="cassandra"), cassandra=keyspace)


@pytest.mark.service("kafka")
class TestKafkaAndSqlite(DocumentCases):
    @pytest.fixture(scope="class")
    @classmethod
    def given(cls, tmp_path_factory: pytest.TempPathFactory, kafka: str) -> Settings:
        data = tmp_path_factory.mktemp("data")
        return Settings(data=data, log=LogSettings(engine="kafka"), kafka=KafkaSettings(bootstrap=(kafka,)))


@pytest.mark.service("kafka", "cassandra")
class TestKafkaAndCassandra(DocumentCases):
    @pytest.fixture(scope="class")
    @classmethod
    def given(cls, tmp_path_factory: pytest.TempPathFactory, kafka: str, keyspace: CassandraSettings) -> Settings:
        return Settings(
            data=tmp_path_factory.mktemp("data"),
            log=LogSettings(engine="kafka"),
            kafka=KafkaSettings(bootstrap=(kafka,)),
            store=StoreSettings(engine="cassandra"),
            cassandra=keyspace,
        )
