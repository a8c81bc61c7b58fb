"""The store: rows folded from the log. SQLite files on one machine, Cassandra on many; each part brings its tables and statements.

Both engines migrate tables to the newest form exactly once, also when several processes open them at the same moment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Self

from headwater.store.migrations import Migration, Migrations

__all__ = ["Migration", "Migrations", "Row", "Store", "StoreEngine"]

Row = tuple[Any, ...]
StoreEngine = Literal["sqlite", "cassandra"]


class Store(ABC):
    """Tables in one place: one SQLite file, or one keyspace. Blocking, and safe to call from several threads at once.

    Guarantees
      - What `run` has written when it returns is durable: on disk and synced (sqlite, unless it was opened with `synced=False`), or taken
        by a quorum of the local data center (cassandra).
      - Migrations are applied once, in order. When a process dies during one, the next process finishes it.

    Errors
      - `BadInput`, `DiskFull`, `ReadOnly`, `NewerFormat`, `Differs`, `Closed` leave the rows as they were; so does `Timeout` on sqlite.
      - `OutcomeUnknown`: the write may or may not be there; read before writing it again.
      - `Damaged`: names the file.
    """

    engine: StoreEngine

    @abstractmethod
    def migrate(self, migrations: Migrations) -> list[Migration]:
        """Apply the missing migrations in order; return them. Errors: `NewerFormat` when a later headwater has migrated the tables,
        `Differs` when the text of an applied one has changed. Both change nothing.
        """

    @abstractmethod
    def applied(self, part: str) -> list[int]:
        """The numbers of a part's migrations that are applied, in their order."""

    @abstractmethod
    def run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement by itself; return its rows."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
