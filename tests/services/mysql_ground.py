"""What the tests of the MySQL adaptor stand on: a database of their own, and short ways to read and write."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pymysql

from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, Part, Piece
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.mysql.adaptor import MySQL, mysql


def connect(uri: str) -> Any:
    parts = urlsplit(uri)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        database=parts.path[1:],
        charset="utf8mb4",
        autocommit=True,
    )


@dataclass
class Ground:
    uri: str
    name: str
    link: Any

    def run(self, *statements: str) -> None:
        for statement in statements:
            with self.link.cursor() as cursor:
                cursor.execute(statement)

    def all(self, question: str) -> list[tuple[Any, ...]]:
        with self.link.cursor() as cursor:
            cursor.execute(question)
            return list(cursor.fetchall())

    def numbers(self, table: str, count: int, row: str) -> None:
        """Insert `count` rows of the expression over `seq`."""
        self.run(f"INSERT INTO {table} SELECT {row} FROM seq_1_to_{count}")

    def source(self, *, tail: bool = False) -> MySQL:
        return mysql(self.uri, tail=tail)

    def sink(self, **more: Any) -> MySQL:
        return mysql(self.uri, **more)

    def chosen(self, table: str = ".*") -> Namespaces:
        return Namespaces(rf"^{self.name}\.{table}$")


@contextmanager
def a_ground(uri: str) -> Iterator[Ground]:
    name = f"t{uuid.uuid4().hex[:12]}"
    with closing(connect(uri)) as link:
        with link.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {name}")
            cursor.execute("SET time_zone = '+00:00'")
        try:
            yield Ground(uri.rpartition("/")[0] + f"/{name}", name, link)
        finally:
            with link.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {name}")


def documents(pieces: Iterator[Piece]) -> list[dict[str, Any]]:
    return [values.decode(value) for piece in pieces for value in piece.values]


def copied(source: MySQL, chosen: Namespaces, slices: int = 1) -> list[dict[str, Any]]:
    return [one for part in source.plan(chosen, slices).slices for one in documents(source.read(part, None))]


def followed(source: MySQL, cursor: Any, chosen: Namespaces, count: int) -> tuple[list[Message], Any]:
    """At least `count` changes, and the cursor behind them."""
    out: list[Message] = []
    for number, piece in enumerate(source.follow(cursor, chosen, lambda: False)):
        cursor = msgspec.json.decode(msgspec.json.encode(piece.position))
        out += piece.messages
        if len(out) >= count:
            break
        assert number < 100, f"only {len(out)} of {count} changes came"
    return out, cursor


def summary(messages: list[Message]) -> list[tuple[str, dict[str, Any]]]:
    return [(one.op.name, one.data) for one in messages]


def part(start: int = 0, end: int = 100, **more: Any) -> Part:
    return Part(pipeline="p", sink="s", start=start, end=end, **more)


def write(sink: MySQL, messages: list[Message], start: int = 0, end: int | None = None, **more: Any) -> None:
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
