"""Cassandra keeps the contract of journal stores, with a real node."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.journal.cassandra import CassandraJournalStore
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.journal_store_contract import JournalStoreContract
from headwater.testing.journal_store_ground import OpenJournalStore

pytestmark = pytest.mark.service("cassandra")


@pytest.fixture(scope="module")
def settings(cassandra: tuple[str, int]) -> Iterator[CassandraSettings]:
    host, port = cassandra
    name = f"journals_{uuid.uuid4().hex}"
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
    yield settings
    with Keyspace(settings) as keyspace:
        keyspace.run(f"drop keyspace {name}")


class TestCassandraJournalStore(JournalStoreContract):
    examples = ring_examples = 15

    @pytest.fixture
    def open_store(self, settings: CassandraSettings) -> OpenJournalStore:
        return lambda segment_size=10_000: CassandraJournalStore(Keyspace(settings), segment_size=segment_size)
