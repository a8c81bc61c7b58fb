"""A schema of PostgreSQL for a test of its own, with a slot and a publication of the same name."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from sql_ground import Ground, eventually

from headwater.adaptors.postgres.adaptor import Postgres, postgres


@dataclass
class PostgresGround(Ground):
    link: psycopg.Connection[tuple[Any, ...]]

    system: ClassVar[str] = "postgres"
    away: ClassVar[str] = "postgresql://u:sesame-42@127.0.0.1:1/db"
    no_uris: ClassVar[tuple[str, ...]] = ("postgres//u:sesame-42@h",)
    follows: ClassVar[str] = "will be made"
    encrypted: ClassVar[str] = "SELECT 1 FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl"
    typed: ClassVar[str] = """
        id bigint PRIMARY KEY, small smallint, big bigint, num numeric, money numeric(12, 2), dbl double precision, flt real, ok boolean,
        txt text, chr char(5), at timestamptz, plain timestamp, day date, bin bytea, uid uuid, doc json, docb jsonb, ints int[],
        texts text[], grid int[][], days date[], m mood, c cents, t time, span interval, "odd ""name'\\ %" text
    """
    typed_rows: ClassVar[tuple[str, ...]] = (
        """(1, -3, 9223372036854775807, 12345678901234567890.123456789012345678901234567890, 1.10, 0.1, 0.1, true,
         E'a "q" \\\\ \\n \\u00e9 🦆', 'ab', '2020-02-03 04:05:06.789012+02', '2020-02-03 04:05:06.5', '2020-02-03', '\\x00ff10',
         '00000000-0000-0000-0000-000000000001',
         E'{"b": 1.10,\\n "a": [1, null, {"x": "\\\\n"}]}', '{"n": 12345678901234567890, "s": null}', '{1,NULL,3}',
         '{"a b","c,d","q\\"",NULL,"NULL",""}',
         '{{1,2},{3,4}}', '{2020-01-01}', 'glad', 5, '12:34:56.5', '1 day 02:00', 'odd')""",
        """(2, NULL, NULL, 'NaN', NULL, 'NaN', '-Infinity', false, '', '', 'infinity', '0044-03-15 BC', '-infinity',
         '', NULL, 'null', '"text"', '{}', '{}',
         NULL, '{}', NULL, NULL, NULL, NULL, NULL)""",
        """(3, 1, 1, 100, 5, 100000, 1e20, NULL, NULL, NULL, '2020-01-01', NULL, NULL, NULL, NULL, NULL,
         '{"a": {"$date": "x"}}', NULL, NULL, NULL, NULL, 'sad', NULL, NULL,
         NULL, NULL)""",
    )
    made: ClassVar[dict[str, str]] = {
        "id": "bigint",
        "n": "double precision",
        "d": "numeric",
        "at": "timestamp with time zone",
        "bin": "bytea",
        "doc": "jsonb",
        "ok": "boolean",
        "t": "text",
        "uid": "uuid",
        "late": "text",
    }

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.link.execute(statement)

    def all(self, question: str) -> list[tuple[Any, ...]]:
        return self.link.execute(question).fetchall()

    def source(self, *, tail: bool = False) -> Postgres:
        return postgres(self.uri, tail=tail, slot=self.name, publication=self.name)

    def sink(self, **more: Any) -> Postgres:
        return postgres(self.uri, schema=self.name, state_schema=self.name, **more)

    def stranger(self, *rights: str) -> str:
        self.run(f"DROP ROLE IF EXISTS {self.name}", f"CREATE ROLE {self.name} LOGIN PASSWORD 'sesame-42'")
        self.run(f"GRANT USAGE ON SCHEMA {self.name} TO {self.name}")
        for right in rights:
            self.run(f"GRANT {right} ON ALL TABLES IN SCHEMA {self.name} TO {self.name}")
        return self.uri.replace("headwater:headwater@", f"{self.name}:sesame-42@")

    def trusting(self, authority: Path) -> str:
        return f"{self.uri}?sslmode=verify-full&sslrootcert={authority}"

    def types(self, table: str) -> dict[str, str]:
        return dict(
            self.all(
                f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0"
            )
        )

    def differ(self, one: str, other: str) -> bool:
        same = f"SELECT count(*) FROM {one} x FULL JOIN {other} y USING (id) WHERE to_jsonb(x) - 'doc' IS DISTINCT FROM to_jsonb(y) - 'doc'"
        return self.all(same) != [(0,)]

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        with psycopg.connect(self.uri, options=f"-c search_path={self.name}") as holder:
            holder.execute(statement)
            yield
            holder.rollback()

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        with self.holding(f"LOCK TABLE {table} IN SHARE MODE"):
            yield

    def waiting(self) -> list[int]:
        return [
            row[0]
            for row in self.all(
                f"SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO%{self.name}%'"
            )
        ]

    def kill(self, connection: int) -> None:
        self.run(f"SELECT pg_terminate_backend({connection})")

    def following(self) -> list[int]:
        return [row[0] for row in self.all(f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{self.name}' AND active")]

    def remembers(self) -> list[tuple[Any, ...]]:
        return self.all(f"SELECT relname FROM pg_class WHERE relname LIKE 'headwater%' AND relnamespace = '{self.name}'::regnamespace")

    def rotate(self) -> None:
        self.run("SELECT pg_switch_wal()")

    def to_bytes(self, table: str, column: str) -> list[str]:
        return [f"ALTER TABLE {table} ALTER {column} TYPE bytea USING {column}::bytea"]

    def small_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headwater.adaptors.postgres.source.PIECE", 1000)


@contextmanager
def a_postgres_ground(uri: str) -> Iterator[PostgresGround]:
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(uri, autocommit=True) as link:
        link.execute(f"CREATE SCHEMA {name}; SET search_path TO {name}; SET client_min_messages TO warning")
        link.execute("CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE DOMAIN cents AS bigint")
        ground = PostgresGround(uri, name, link)
        try:
            yield ground
        finally:
            for pid in ground.following():  # a stream that a test has just left may still hold its slot
                ground.kill(pid)
            eventually(lambda: not ground.following())
            link.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (name,))
            link.execute(f"DROP PUBLICATION IF EXISTS {name}; DROP SCHEMA {name} CASCADE; DROP ROLE IF EXISTS {name}")
