"""The cases of journals with real servers: the embedded log with Cassandra, Kafka with SQLite, and Kafka with Cassandra."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.journal.cassandra import CassandraJournalStore
from headwater.journal.sqlite import SqliteJournalStore
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.kafka.log import KafkaLog
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.journal_cases import JournalCases
from headwater.testing.journal_cases_ground import OpenJournalStore
from headwater.testing.journal_walk import walk


@pytest.fixture(scope="module")
def settings(cassandra: tuple[str, int]) -> Iterator[CassandraSettings]:
    host, port = cassandra
    name = f"journals_{uuid.uuid4().hex}"
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
    yield settings
    with Keyspace(settings) as keyspace:
        keyspace.run(f"drop keyspace {name}")


@pytest.mark.service("cassandra")
class TestEmbeddedAndCassandra(JournalCases):
    @pytest.fixture
    def open_log(self, tmp_path: Path) -> Callable[[], Log]:
        return lambda: EmbeddedLog(tmp_path / "log")

    @pytest.fixture
    def open_store(self, settings: CassandraSettings) -> OpenJournalStore:
        return lambda segment_size: CassandraJournalStore(Keyspace(settings), segment_size=segment_size)


@pytest.mark.service("kafka")
class TestKafkaAndSqlite(JournalCases):
    """Without an owner, so the cases give their numbers themselves."""

    exact = False

    @pytest.fixture
    def open_log(self, kafka: str) -> Callable[[], Log]:
        return lambda: KafkaLog(kafka)

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenJournalStore:
        return lambda segment_size: SqliteJournalStore(tmp_path / "store", segment_size=segment_size)


@pytest.mark.service("kafka", "cassandra")
class TestKafkaAndCassandra(JournalCases):
    exact = False

    @pytest.fixture
    def open_log(self, kafka: str) -> Callable[[], Log]:
        return lambda: KafkaLog(kafka)

    @pytest.fixture
    def open_store(self, settings: CassandraSettings) -> OpenJournalStore:
        return lambda segment_size: CassandraJournalStore(Keyspace(settings), segment_size=segment_size)


@pytest.mark.service("cassandra")
def test_a_random_walk_over_cassandra_equals_the_model(tmp_path: Path, settings: CassandraSettings) -> None:
    walk(
        lambda: EmbeddedLog(tmp_path / "log"),
        lambda segment_size: CassandraJournalStore(Keyspace(settings), segment_size=segment_size),
        7,
        steps=150,
    )


@pytest.mark.service("kafka")
def test_a_random_walk_over_kafka_equals_the_model(tmp_path: Path, kafka: str) -> None:
    walk(
        lambda: KafkaLog(kafka),
        lambda segment_size: SqliteJournalStore(tmp_path / "store", segment_size=segment_size),
        8,
        steps=150,
        exact=False,
        truncates=False,
    )


@pytest.mark.soak
@pytest.mark.service("cassandra")
def test_a_long_random_walk_over_cassandra_equals_the_model(tmp_path: Path, settings: CassandraSettings) -> None:
    walk(
        lambda: EmbeddedLog(tmp_path / "log"),
        lambda segment_size: CassandraJournalStore(Keyspace(settings), segment_size=segment_size),
        107,
        steps=10_000,
    )
