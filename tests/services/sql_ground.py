"""What the tests of databases stand on: a place of their own in each server, and short ways to read, write and be in the way."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from headwater.adaptors.sql.adaptor import SqlAdaptor
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.pipeline.source_adaptor import Piece

# A server by the name of its fixture. It is asked for by name, so the mark has to be given here.
SERVERS = [pytest.param(name, marks=pytest.mark.service(name)) for name in ("postgres", "mariadb")]


@dataclass
class Ground(ABC):
    """A schema or database of the test's own."""

    uri: str
    name: str

    system: ClassVar[str]  # the package below headwater.adaptors
    away: ClassVar[str]  # the URI of a server that is not there, with a password
    no_uris: ClassVar[tuple[str, ...]]  # with the same password
    follows: ClassVar[str]  # what `check` says of the changes
    typed: ClassVar[str]  # the columns of a table with every type there is
    typed_rows: ClassVar[tuple[str, ...]]
    encrypted: ClassVar[str]  # a question that has an answer over TLS
    made: ClassVar[dict[str, str]]  # the types of the columns of a table that a sink makes, by field

    @abstractmethod
    def run(self, *statements: str) -> None: ...

    @abstractmethod
    def all(self, question: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def source(self, *, tail: bool = False) -> SqlAdaptor: ...

    @abstractmethod
    def sink(self, **more: Any) -> SqlAdaptor: ...

    @abstractmethod
    def stranger(self, *rights: str) -> str:
        """The URI of another user, who has these rights on the ground's tables, and no more."""

    @abstractmethod
    def trusting(self, authority: Path) -> str:
        """The URI, over TLS and only to a server that the authority vouches for."""

    @abstractmethod
    def types(self, table: str) -> dict[str, str]: ...

    @abstractmethod
    def differ(self, one: str, other: str) -> bool:
        """Whether the server finds that two tables of `typed` columns hold other rows, JSON's spelling aside."""

    @abstractmethod
    def holding(self, statement: str) -> AbstractContextManager[None]:
        """Another connection's transaction, in which the statement was run."""

    @abstractmethod
    def locked(self, table: str) -> AbstractContextManager[None]:
        """Nobody else can write to the table."""

    @abstractmethod
    def waiting(self) -> list[int]:
        """Connections whose writes wait for somebody."""

    @abstractmethod
    def kill(self, connection: int) -> None: ...

    @abstractmethod
    def following(self) -> list[int]:
        """Connections by which changes of this ground are followed."""

    @abstractmethod
    def remembers(self) -> list[tuple[Any, ...]]:
        """The tables that a sink has made for itself."""

    @abstractmethod
    def rotate(self) -> None:
        """The server goes on with another file of its log."""

    @abstractmethod
    def to_bytes(self, table: str, column: str) -> list[str]:
        """Statements that make a column of text one of bytes."""

    @abstractmethod
    def small_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Copies come in pieces of less than a hundred rows."""

    def chosen(self, table: str = ".*") -> Namespaces:
        return Namespaces(rf"^{self.name}\.{table}$")

    def fill(self, table: str, rows: Iterable[str]) -> None:
        """Insert rows, each as SQL text."""
        self.run(f"INSERT INTO {table} VALUES {', '.join(rows)}")


def a_ground(request: pytest.FixtureRequest) -> AbstractContextManager[Ground]:
    """The ground in the server that the test is parametrised with."""
    from mysql_ground import a_mysql_ground
    from postgres_ground import a_postgres_ground

    uri = request.getfixturevalue(request.param)
    return a_postgres_ground(uri) if request.param == "postgres" else a_mysql_ground(uri)


def documents(pieces: Iterator[Piece]) -> list[dict[str, Any]]:
    return [values.decode(value) for piece in pieces for value in piece.values]


def copied(source: SqlAdaptor, chosen: Namespaces, slices: int = 1) -> list[dict[str, Any]]:
    return [one for part in source.plan(chosen, slices).slices for one in documents(source.read(part, None))]


def followed(source: SqlAdaptor, cursor: Any, chosen: Namespaces, count: int) -> tuple[list[Message], Any]:
    """At least `count` changes, and the cursor behind them. All of it was asked for again, so the source may have let go of it."""
    out: list[Message] = []
    for number, piece in enumerate(source.follow(cursor, chosen, lambda: False)):
        cursor = travelled(piece.position)
        out += [one for one in piece.messages if one.op != Op.NOOP]  # which only say that there may be more
        if len(out) >= count:
            break
        assert number < 100, f"only {len(out)} of {count} changes came"
    return out, cursor


def travelled(position: Any) -> Any:
    """A position as it comes out of the log."""
    return msgspec.json.decode(msgspec.json.encode(position))


def summary(messages: list[Message]) -> list[tuple[str, dict[str, Any]]]:
    return [(one.op.name, one.data) for one in messages]


def part(start: int = 0, end: int = 100, **more: Any) -> Part:
    return Part(pipeline="p", sink="s", start=start, end=end, **more)


def write(sink: SqlAdaptor, messages: list[Message], start: int = 0, end: int | None = None, **more: Any) -> None:
    end = start + len(messages) if end is None else end
    writer = sink.writer(part(start, end, **more))
    try:
        writer.write(Batch(start=start, end=end, messages=messages))
        assert writer.finish() == {}
    finally:
        writer.close()


def insert(offset: int, **data: Any) -> Message:
    return Message("t", data, offset=offset, id_fields=("id",))


def eventually(true: Callable[[], bool], tries: int = 6000) -> None:
    """Poll until it is true."""
    tick = threading.Event()
    for _ in range(tries):
        if true():
            return
        tick.wait(0.02)
    raise AssertionError("it did not become true in time")
