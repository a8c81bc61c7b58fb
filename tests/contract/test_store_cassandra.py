"""Cassandra keeps the store's contract, with a real node."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing import StoreContract
from headwater.testing.store_ground import Dialect, OpenStore

pytestmark = pytest.mark.service("cassandra")


class TestCassandraStore(StoreContract):
    dialect = Dialect(
        make="create table if not exists shelf (id text primary key, books int)", widen="alter table shelf add if not exists colour text"
    )

    @pytest.fixture
    def open_store(self, cassandra: tuple[str, int]) -> Iterator[OpenStore]:
        host, port = cassandra
        name = f"contract_{uuid.uuid4().hex}"
        settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
        yield lambda: Keyspace(settings)
        with Keyspace(settings) as keyspace:
            keyspace.run(f"drop keyspace {name}")
