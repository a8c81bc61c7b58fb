"""A real Cassandra."""

from __future__ import annotations

import uuid

import pytest
from cassandra.cluster import Cluster
from tools.services import up
from tools.services.private import PrivateServers


def insert_and_select(address: tuple[str, int], keyspace: str, *, insert: bool) -> list[tuple[str, int]]:
    host, port = address
    with Cluster([host], port=port) as cluster, cluster.connect() as session:
        if insert:
            session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
            session.execute(f"CREATE TABLE {keyspace}.orders (id text PRIMARY KEY, amount bigint)")
            for number in range(20):
                session.execute(f"INSERT INTO {keyspace}.orders (id, amount) VALUES (%s, %s)", (f"order-{number:02}", number))
        return sorted((row.id, row.amount) for row in session.execute(f"SELECT id, amount FROM {keyspace}.orders"))


def test_what_was_inserted_is_selected(cassandra: tuple[str, int]) -> None:
    rows = insert_and_select(cassandra, f"services_{uuid.uuid4().hex}", insert=True)
    assert rows == [(f"order-{number:02}", number) for number in range(20)]


def test_a_second_up_finds_it(cassandra: tuple[str, int]) -> None:
    running = up("cassandra", kept=False)
    assert running.found == {"cassandra"}
    assert running.cassandra == cassandra


@pytest.mark.soak
def test_a_node_that_was_killed_comes_back_with_its_data(private_servers: PrivateServers) -> None:
    running = private_servers.up("cassandra")
    rows = insert_and_select(running.cassandra, "orders", insert=True)
    running.kill("node-1")
    running.restart("node-1")
    assert insert_and_select(running.cassandra, "orders", insert=False) == rows
