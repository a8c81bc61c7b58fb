"""What tests of projections share: a topic, a SQLite read model, and runs with shares of their own."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tests.unit.journal.ground import TOPIC, Ground

from headwater.cluster.shares import PartitionShares
from headwater.journal.append_rows import event_rows
from headwater.journal.projection import Projection
from headwater.journal.projection_run import ProjectionRun
from headwater.log import Log
from headwater.log.record import Topic


class GivenShares(PartitionShares):
    """The partitions that a test gives."""

    def __init__(self, given: Collection[int]) -> None:
        self.given, self.held = frozenset(given), frozenset[int]()

    def assigned(self) -> frozenset[int]:
        return self.given

    def hold(self, partitions: Collection[int]) -> None:
        self.held = frozenset(partitions)

    def close(self) -> None:
        self.given = frozenset()


class ReadModel:
    """A table that counts how often it got each event: every count must be 1."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fails: Callable[[Any], bool] = lambda event: False

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=60)
        connection.execute("CREATE TABLE IF NOT EXISTS seen (id TEXT, number INTEGER, record INTEGER, turn INTEGER)")
        connection.commit()
        return connection

    def handle(self, event: Any, connection: Any) -> None:
        (turn,) = connection.execute("SELECT COUNT(*) FROM seen").fetchone()
        connection.execute("INSERT INTO seen VALUES (?, ?, ?, ?)", (event.id, event.seq_nr, event.offset, turn))
        if self.fails(event):
            raise ValueError(f"no {event.id} {event.seq_nr}")

    def empty(self, connection: Any) -> None:
        connection.execute("DELETE FROM seen")

    def rows(self) -> list[tuple[str, int, int]]:
        """Every event that it has got, in the order in which it came."""
        connection = self.connect()
        try:
            return list(connection.execute("SELECT id, number, record FROM seen ORDER BY turn"))
        finally:
            connection.close()

    def projection(self, **options: Any) -> Projection:
        return Projection("bank", "seen", self.handle, connect=self.connect, reset=self.empty, **options)


def run_of(
    ground: Ground, projection: Projection, partitions: Collection[int] = (0, 1), *, log: Log | None = None, shares: Any = None
) -> ProjectionRun:
    """A run over a ground's log."""
    opened = log or ground.log

    def given(topic: Topic) -> PartitionShares:
        found: PartitionShares = shares or GivenShares(partitions)
        return found

    return ProjectionRun(projection, opened, opened.topic(TOPIC), store=lambda: ground.store, shares=given, clock=ground.clock)


def fold(log: Log) -> Counter[tuple[str, int, int]]:
    """Every event of the topic, as the log holds it."""
    found: Counter[tuple[str, int, int]] = Counter()
    for number in range(log.topic(TOPIC).partitions):
        bounds = log.bounds(TOPIC, number)
        for record in log.read(TOPIC, number, bounds.start, limit=1 << 20) if bounds.end > bounds.start else ():
            found.update(((record.key or b"").decode(), row.seq_nr, row.offset) for row in event_rows(record, number))
    return found


def in_order(rows: list[tuple[str, int, int]]) -> bool:
    """Whether the events of each journal came in the order of the log."""
    last: dict[str, tuple[int, int]] = {}
    for id, number, offset in rows:
        if last.get(id, (-1, 0)) >= (offset, number):
            return False
        last[id] = (offset, number)
    return True
