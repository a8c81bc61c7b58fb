"""Cassandra keeps the contract of key stores, with a real node."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.journal.cassandra_keys import CassandraKeyStore
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.key_store_contract import KeyStoreContract, OpenKeyStore

pytestmark = pytest.mark.service("cassandra")


@pytest.fixture
def settings(cassandra: tuple[str, int]) -> Iterator[CassandraSettings]:
    host, port = cassandra
    name = f"keys_{uuid.uuid4().hex}"
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
    yield settings
    with Keyspace(settings) as keyspace:
        keyspace.run(f"drop keyspace {name}")


class TestCassandraKeyStore(KeyStoreContract):
    @pytest.fixture
    def open_store(self, settings: CassandraSettings) -> OpenKeyStore:
        return lambda: CassandraKeyStore(Keyspace(settings))
