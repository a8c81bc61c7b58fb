"""PostgreSQL and MariaDB, held to what adaptors promise."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from mysql_ground import a_mysql_ground
from sql_ground import SERVERS, Ground, a_ground

from headwater.adaptors.postgres.adaptor import postgres as postgres_at
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.source_adaptor import CanCopy
from headwater.testing import CopyContract, SinkContract


class TestSink(SinkContract):
    @pytest.fixture(params=SERVERS)
    def ground(self, request: pytest.FixtureRequest) -> Iterator[Ground]:
        with a_ground(request) as made:
            yield made

    @pytest.fixture
    def sink(self, ground: Ground) -> CanWrite:
        return ground.sink(create=True)


@pytest.fixture(scope="module")
def database(postgres: str) -> Iterator[str]:
    """A database of PostgreSQL with nothing else in it: all its schemas are read."""
    name = f"t{uuid.uuid4().hex[:12]}"
    uri = postgres.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            with psycopg.connect(uri, autocommit=True) as link:
                link.execute("CREATE TABLE plain (name text, data bytea)")
                link.execute("CREATE TABLE keyed (a int, b text, PRIMARY KEY (a, b))")
                link.execute("CREATE SCHEMA other")
                link.execute("CREATE TABLE other.keyed (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz)")
                link.execute("INSERT INTO plain SELECT 'n' || n, decode(lpad(to_hex(n), 2, '0'), 'hex') FROM generate_series(1, 20) n")
                link.execute("INSERT INTO keyed SELECT n / 3, n::text FROM generate_series(1, 20) n")
                link.execute("INSERT INTO other.keyed (at) SELECT now() FROM generate_series(1, 10)")
            yield uri
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def filled(mariadb: str) -> Iterator[Ground]:
    with a_mysql_ground(mariadb) as ground:
        ground.run("CREATE TABLE plain (name text, data blob)", "CREATE TABLE keyed (a int, b varchar(20), PRIMARY KEY (a, b))")
        ground.run("CREATE TABLE dated (at datetime(6) PRIMARY KEY)")
        ground.fill("plain", (f"('n{n}', CHAR({n}))" for n in range(1, 21)))
        ground.fill("keyed", (f"({n // 3}, '{n}')" for n in range(1, 21)))
        ground.fill("dated", (f"('2020-01-01 00:00:00.{n:06}')" for n in range(10)))
        yield ground


class TestPostgresSource(CopyContract):
    @pytest.fixture
    def source(self, database: str) -> CanCopy:
        return postgres_at(database)


class TestMySQLSource(CopyContract):
    @pytest.fixture
    def source(self, filled: Ground) -> CanCopy:
        return filled.source()
