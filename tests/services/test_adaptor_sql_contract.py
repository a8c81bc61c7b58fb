"""PostgreSQL and MariaDB, held to what adaptors promise."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import mysql_ground
import psycopg
import pytest

from headwater.pipeline.adaptor import CanCopy, CanWrite
from headwater.pipeline.systems.mysql.adaptor import mysql
from headwater.pipeline.systems.postgres.adaptor import postgres as postgres_at
from headwater.testing import CopyContract, SinkContract


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The URI of a database of PostgreSQL with nothing in it."""
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}")
        try:
            yield postgres.rpartition("/")[0] + f"/{name}"
        finally:
            link.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def ground(mariadb: str) -> Iterator[mysql_ground.Ground]:
    with mysql_ground.a_ground(mariadb) as made:
        yield made


class TestPostgresSource(CopyContract):
    @pytest.fixture
    def source(self, database: str) -> CanCopy:
        with psycopg.connect(database, autocommit=True) as link:
            link.execute("CREATE TABLE plain (name text, data bytea)")
            link.execute("CREATE TABLE keyed (a int, b text, PRIMARY KEY (a, b))")
            link.execute("CREATE SCHEMA other; CREATE TABLE other.keyed (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz)")
            link.execute("INSERT INTO plain SELECT 'n' || n, decode(lpad(to_hex(n), 2, '0'), 'hex') FROM generate_series(1, 20) n")
            link.execute("INSERT INTO keyed SELECT n / 3, n::text FROM generate_series(1, 20) n")
            link.execute("INSERT INTO other.keyed (at) SELECT now() FROM generate_series(1, 10)")
        return postgres_at(database)


class TestPostgresSink(SinkContract):
    @pytest.fixture
    def sink(self, database: str) -> CanWrite:
        return postgres_at(database, create=True)


class TestMySQLSource(CopyContract):
    @pytest.fixture
    def source(self, ground: mysql_ground.Ground) -> CanCopy:
        ground.run("CREATE TABLE plain (name text, data blob)", "CREATE TABLE keyed (a int, b varchar(20), PRIMARY KEY (a, b))")
        ground.run("CREATE TABLE dated (at datetime(6) PRIMARY KEY)")
        ground.numbers("plain", 20, "CONCAT('n', seq), CHAR(seq)")
        ground.numbers("keyed", 20, "seq DIV 3, seq")
        ground.numbers("dated", 10, "NOW(6) + INTERVAL seq MICROSECOND")
        return mysql(ground.uri)


class TestMySQLSink(SinkContract):
    @pytest.fixture
    def sink(self, ground: mysql_ground.Ground) -> CanWrite:
        return mysql(ground.uri, create=True)
