"""What a part may bring besides: tables for Spark, a chapter of the tour, hooks of the server, settings by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from tests.unit.parts.toy import SECTION, TOY, ToyPerformer

from headwater.core.sections import NamedSection
from headwater.core.settings import Note, Settings
from headwater.core.units import Duration
from headwater.log import Log
from headwater.server.tour.report import TourReport
from headwater.spark.tables import StoreTable, TopicTable
from headwater.store.sqlite.database import Database

FOLDER = "demo-toy"


class CounterSettings(msgspec.Struct, frozen=True, kw_only=True):
    pause: Annotated[Duration, Note("The pause between two numbers.", '"1s"')] = Duration(0)
    words: Annotated[tuple[str, ...], Note("What is said.", '["one", "two"]')] = ()


COUNTERS = NamedSection("counter", CounterSettings)


class LivingToy(ToyPerformer):
    """Knows whether a server runs it."""

    def __init__(self, **ground: Any) -> None:
        super().__init__(**ground)
        self.lives = False


async def opens(performer: LivingToy, log: object) -> None:
    performer.lives = True


async def closes(performer: LivingToy, log: object) -> None:
    performer.lives = False


class ToyTable(TopicTable):
    """The records of a topic, by another scheme."""


class ToyStore(StoreTable):
    """The counters of `toy/`, which lie in the files of its shards."""

    schema = pa.schema([pa.field("counter", pa.string(), nullable=False), pa.field("value", pa.int64(), nullable=False)])

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        self.name = name

    def shards(self, data: Path) -> list[str]:
        return [str(path) for path in sorted((data / self.name).glob("*.db"))]

    def rows(self, shard: str, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        with closing(Database(Path(shard), synced=False)) as database, database.snapshot() as snapshot:
            found = snapshot.rows("SELECT counter, value FROM counters ORDER BY counter")
        columns = {"counter": [row[0] for row in found], "value": [row[1] for row in found]}
        yield {name: pa.array(columns[name], self.schema.field(name).type) for name in wanted}


def chapter(log: Log, settings: Settings, report: TourReport) -> None:
    report.claim("the toy counts", list(range(3, 0, -1)) == [3, 2, 1])


LARGER_TOY = msgspec.structs.replace(
    TOY,
    performs=f"{__name__}:LivingToy",
    opens=f"{__name__}:opens",
    closes=f"{__name__}:closes",
    tables={"toy": f"{__name__}:ToyTable", "counters": f"{__name__}:ToyStore"},
    chapter=f"{__name__}:chapter",
    sections=(SECTION, COUNTERS),
)
