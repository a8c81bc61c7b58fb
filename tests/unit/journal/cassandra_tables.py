"""CassandraTables that answer what a test tells them, and record what is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headwater.journal.cassandra_view import CassandraTables
from headwater.store import Row


class RecordingTables(CassandraTables):
    """`answers`: statement and values to rows; what is not in it has none. `written`: names and values of writes, step by step."""

    def __init__(self, *, older: bool = False) -> None:
        self.requests, self.statements, self.older = RecordingRequests(self), {"rows": "rows"}, older  # type: ignore[assignment]
        self.answers: dict[tuple[str, tuple[object, ...]], list[Row]] = {}
        self.written: list[list[tuple[Any, ...]]] = []
        self.asked: list[tuple[object, ...]] = []

    def bound(self, name: str, *values: object) -> Any:
        return (name, *values)

    def rows(self, name: str, *values: object) -> list[Row]:
        self.asked.append((name, *values))
        return self.answers.get((name, values), [])

    def steps(self) -> list[list[str]]:
        """The names of what was written, step by step."""
        return [[name for name, *_ in step] for step in self.written]


class RecordingRequests:
    def __init__(self, tables: RecordingTables) -> None:
        self._tables = tables

    def all(self, requests: Iterable[tuple[Any, ...]]) -> Iterator[list[Row]]:
        for name, *values in requests:
            yield self._tables.rows(name, *values)

    def write(self, requests: Iterable[tuple[Any, ...]]) -> None:
        if step := list(requests):
            self._tables.written.append(step)

    def batch(self, requests: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        return ("batch", *requests)

    def pages(self, statement: str, values: Sequence[object], *, size: int = 1000) -> Iterator[list[Row]]:
        if rows := self._tables.rows(statement, *values):
            yield rows
