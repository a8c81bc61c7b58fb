"""Cassandra keeps the contract of document stores, with a real node."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.documents.cassandra import CassandraDocumentStores
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.document_store_contract import DocumentStoreContract
from headwater.testing.document_store_ground import OpenDocumentStores

pytestmark = pytest.mark.service("cassandra")


@pytest.fixture(scope="module")
def settings(cassandra: tuple[str, int]) -> Iterator[CassandraSettings]:
    host, port = cassandra
    name = f"documents_{uuid.uuid4().hex}"
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
    yield settings
    with Keyspace(settings) as keyspace:
        keyspace.run(f"drop keyspace {name}")


class TestCassandraDocumentStore(DocumentStoreContract):
    examples = 10

    @pytest.fixture
    def open_stores(self, settings: CassandraSettings) -> OpenDocumentStores:
        return lambda: CassandraDocumentStores(Keyspace(settings))
