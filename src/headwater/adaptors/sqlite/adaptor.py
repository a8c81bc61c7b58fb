"""SQLite: tables read by ranges of rows, and written with their offsets in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About, CanCopy, CanWrite, CopyPlan, Delivery, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict


class Sqlite(CanCopy, CanWrite, frozen=True, kw_only=True):
    """A database file."""

    kind: ClassVar[str] = "sqlite"
    about: ClassVar[About] = About(
        summary="A SQLite database file.",
        namespace="the table's name",
        source="Copies tables by ranges of rows, side by side; resumes at the row. Changes are not followed.",
        sink="Exactly once: rows and offsets in one transaction, synced. Tables and columns are made as documents need them. "
        "A truncate empties the table.",
        sample='sqlite("orders.db")',
    )
    delivery: ClassVar[Delivery] = "exactly once"
    least_batch: ClassVar[int] = 10_000

    path: str | Env
    table: str | None = None

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.sqlite import source as sqlite_source
        from headwater.adaptors.sqlite import tables as sqlite_tables

        if role == "source":
            tables = sqlite_source.tables(self.resolved(), chosen)
            return [f"{len(tables)} tables: {', '.join(tables)}"]
        return [sqlite_tables.writable(str(self.resolved().path))]

    # -- reading --------------------------------------------------------------------------------------------

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        from headwater.adaptors.sqlite.source import plan

        return plan(self.resolved(), chosen, slices)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.sqlite.source import read

        return read(self.resolved(), part, position)

    # -- writing --------------------------------------------------------------------------------------------

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.sqlite.sink import SqliteWriter

        return SqliteWriter(self.resolved(), part)

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        from headwater.adaptors.sqlite.sink import begin

        return begin(self.resolved(), pipeline, sink, epoch)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        from headwater.adaptors.sqlite.sink import forget

        forget(self.resolved(), pipeline, sink, position, epoch)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        from headwater.adaptors.sqlite.tables import cell

        return {name: cell(value) for name, value in data.items() if value is not None}

    def place(self, namespace: str) -> str:
        return self.table or namespace

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        from headwater.adaptors.sqlite.source import rows

        return rows(self.resolved(), self.table or namespace)


@strict
def sqlite(path: str | Env, *, table: str | None = None) -> Sqlite:
    """A database file. `table`: write all messages to this table, whatever their namespace."""
    if table is not None and not table:
        raise BadConfig("A table needs a name.", hint="Leave the option out to name tables by namespaces.")
    return Sqlite(path=path, table=table)
