"""SQLite: tables read by ranges of rows, and written with their offsets in one transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Self

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.location import FILES
from headwater.pipeline.options import Means, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy


class Sqlite(CanCopy, CanWrite, frozen=True, kw_only=True):
    """A database file."""

    kind: ClassVar[str] = "sqlite"
    about: ClassVar[About] = About(
        summary="A SQLite database file.",
        namespace="the table's name",
        source="Copies tables in parallel, by ranges of rowid; resumes behind the last row. Changes are not followed.",
        sink="Exactly once: rows and offsets in one transaction, synced. Tables and columns are created as documents need them; "
        "each column's type is decided once, so that numbers compare as numbers. "
        "A truncate empties the table.",
        sample='sqlite("orders.db")',
    )
    delivery: ClassVar[Delivery] = "exactly once"
    least_batch: ClassVar[int] = 10_000

    stores: ClassVar[tuple[str, ...]] = (FILES,)
    source_class: ClassVar[str] = "headwater.adaptors.sqlite.source:SqliteSource"
    sink_class: ClassVar[str] = "headwater.adaptors.sqlite.sink:SqliteSink"

    path: Annotated[str | Env, Means("The database file.", path=True)]
    table: Annotated[str | None, Means("As a sink, write all messages to this table, whatever their namespace.")] = None

    @property
    def file(self) -> Path:
        return Path(str(self.resolved().path))

    def checked(self) -> Self:
        if self.table == "":
            raise BadConfig("A table needs a name.", hint="Leave the option out to name tables by namespaces.")
        return self


sqlite = factory(Sqlite)
