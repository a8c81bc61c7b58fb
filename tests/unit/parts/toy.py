"""A part in sixty lines: counting down as a question, as a stream and as a job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import typer

from headwater.client.backend import Backend
from headwater.client.job import Job
from headwater.core.sections import NamedSection, Section
from headwater.core.settings import Note, Settings
from headwater.core.units import Duration
from headwater.log import Log
from headwater.server.tour.report import TourReport
from headwater.spark.tables import StoreTable, TopicTable
from headwater.store.sqlite.database import Database
from headwater.wire.operation import Operation, Request, Role, described
from headwater.wire.part import PartDefinition
from headwater.wire.progress import report


class Countdown(Request, frozen=True, kw_only=True):
    """From where."""

    start: Annotated[int, described("Where to begin; it counts from 0.", most=1000)]


class Numbers(msgspec.Struct, frozen=True):
    """The numbers, down to 1."""

    numbers: list[int]


ASK = Operation(
    part="toy", name="numbers", method="GET", path="/toy/{start}", request=Countdown, answer=Numbers, role=Role.READER, says="Count down."
)
STREAM = msgspec.structs.replace(ASK, name="follow", path="/toy/{start}/follow", answer=int, kind="stream", media="text/event-stream")
JOB = msgspec.structs.replace(ASK, name="slowly", method="POST", path="/toy/{start}/slowly", kind="job", role=Role.WRITER)


class ToySettings(msgspec.Struct, frozen=True, kw_only=True):
    step: Annotated[int, Note("How far a step goes.", "1", 1)] = 1


class CounterSettings(msgspec.Struct, frozen=True, kw_only=True):
    pause: Annotated[Duration, Note("The pause between two numbers.", '"1s"')] = Duration(0)
    words: Annotated[tuple[str, ...], Note("What is said.", '["one", "two"]')] = ()


TOY_SECTION, COUNTERS = Section("toy", ToySettings), NamedSection("counter", CounterSettings)


class ToyPerformer:
    def __init__(self, *, settings: Settings, **ground: Any) -> None:
        self._step = TOY_SECTION.of(settings).step
        self.lives = False  # whether a server runs it

    def perform(self, log: object, operation: Operation[Any, Any], request: Countdown, who: str) -> Numbers:
        report(request.start, request.start)
        return Numbers(list(range(request.start, 0, -self._step)))

    async def stream(self, operation: Operation[Any, Any], request: Countdown) -> AsyncIterator[int]:
        for number in range(request.start, 0, -1):
            yield number


class Toy:
    """Counts down."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def numbers(self, start: int) -> Numbers:
        """Count down."""
        return await self._backend.ask(ASK, Countdown(start=start))

    async def follow(self, start: int) -> AsyncIterator[int]:
        """Count down, number by number."""
        async for number in self._backend.stream(STREAM, Countdown(start=start)):
            yield number

    async def slowly(self, start: int) -> Job[Numbers]:
        """Count down as a job."""
        return await self._backend.start(JOB, Countdown(start=start))


async def opens(performer: ToyPerformer, log: object) -> None:
    performer.lives = True


async def closes(performer: ToyPerformer, log: object) -> None:
    performer.lives = False


def group() -> typer.Typer:
    tree = typer.Typer()
    tree.command("numbers")(lambda start=3: typer.echo(str(start)))
    tree.callback()(lambda: None)
    return tree


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


TOY = PartDefinition(
    name="toy",
    door="toy",
    operations=(ASK, STREAM, JOB),
    performs=f"{__name__}:ToyPerformer",
    offers=f"{__name__}:Toy",
    opens=f"{__name__}:opens",
    closes=f"{__name__}:closes",
    commands=f"{__name__}:group",
    tables={"toy": f"{__name__}:ToyTable", "counters": f"{__name__}:ToyStore"},
    chapter=f"{__name__}:chapter",
    sections=(TOY_SECTION, COUNTERS),
)
