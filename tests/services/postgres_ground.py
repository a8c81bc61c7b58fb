"""What the tests of the PostgreSQL adaptor stand on: a schema of their own, and short ways to read and write."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg

from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, Part, Piece
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.postgres.adaptor import Postgres, postgres


@dataclass
class Ground:
    """A schema of the test's own, with a slot and a publication of the same name."""

    uri: str
    name: str
    link: psycopg.Connection[tuple[Any, ...]]

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.link.execute(statement)

    def all(self, question: str) -> list[tuple[Any, ...]]:
        return self.link.execute(question).fetchall()

    def source(self, *, tail: bool = False) -> Postgres:
        return postgres(self.uri, tail=tail, slot=self.name, publication=self.name)

    def sink(self, **more: Any) -> Postgres:
        return postgres(self.uri, schema=self.name, state_schema=self.name, **more)

    def chosen(self, table: str = ".*") -> Namespaces:
        return Namespaces(rf"^{self.name}\.{table}$")


@contextmanager
def a_ground(uri: str) -> Iterator[Ground]:
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(uri, autocommit=True) as link:
        link.execute(f"CREATE SCHEMA {name}; SET search_path TO {name}; SET client_min_messages TO warning")
        try:
            yield Ground(uri, name, link)
        finally:
            # A stream that a test has just left may still hold its slot.
            link.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active", (name,))
            eventually(lambda: not link.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active", (name,)).fetchall())
            link.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (name,))
            link.execute(f"DROP PUBLICATION IF EXISTS {name}")
            link.execute(f"DROP SCHEMA {name} CASCADE")


def documents(pieces: Iterator[Piece]) -> list[dict[str, Any]]:
    return [values.decode(value) for piece in pieces for value in piece.values]


def copied(source: Postgres, chosen: Namespaces, slices: int = 1) -> list[dict[str, Any]]:
    return [one for part in source.plan(chosen, slices).slices for one in documents(source.read(part, None))]


def followed(source: Postgres, cursor: Any, chosen: Namespaces, count: int) -> tuple[list[Message], Any]:
    """At least `count` changes, and the cursor behind them. All of it was asked for again, so the source may have let go of it."""
    out: list[Message] = []
    for empty, piece in enumerate(source.follow(cursor, chosen, lambda: False)):
        cursor = msgspec.json.decode(msgspec.json.encode(piece.position))
        out += piece.messages
        if len(out) >= count:
            break
        assert empty < 60, f"only {len(out)} of {count} changes came"
    return out, cursor


def summary(messages: list[Message]) -> list[tuple[str, dict[str, Any]]]:
    return [(one.op.name, one.data) for one in messages]


def part(start: int = 0, end: int = 100, **more: Any) -> Part:
    return Part(pipeline="p", sink="s", start=start, end=end, **more)


def write(sink: Postgres, messages: list[Message], start: int = 0, end: int | None = None, **more: Any) -> None:
    end = start + len(messages) if end is None else end
    writer = sink.writer(part(start, end, **more))
    try:
        writer.write(Batch(start=start, end=end, messages=messages))
        assert writer.finish() == {}
    finally:
        writer.close()


def insert(offset: int, **data: Any) -> Message:
    return Message("t", data, offset=offset, id_fields=("id",))


def eventually(true: Callable[[], bool], tries: int = 600) -> None:
    """Poll until it is true."""
    tick = threading.Event()
    for _ in range(tries):
        if true():
            return
        tick.wait(0.05)
    raise AssertionError("it did not become true in time")
