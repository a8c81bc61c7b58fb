"""A whole part: counting down as an answer, with an ETag, as bytes, as a stream and as a job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
import typer

from headwater.client.backend import Backend
from headwater.client.job import Job
from headwater.core.document_errors import NotMatched
from headwater.core.sections import Section
from headwater.core.settings import Note, Settings
from headwater.wire.operation import Operation, Reply, Request, Role, described, placed
from headwater.wire.part import PartDefinition
from headwater.wire.progress import report


class Countdown(Request, frozen=True, kw_only=True):
    """From where."""

    start: Annotated[int, described("Where to begin; it counts from 0.", most=1000)]
    if_match: Annotated[str | None, placed("header", "Only if this is its ETag.", name="If-Match")] = None


class Numbers(msgspec.Struct, frozen=True):
    """The numbers, down to 1."""

    numbers: list[int]


class ToySettings(msgspec.Struct, frozen=True, kw_only=True):
    step: Annotated[int, Note("How far a step goes.", "1", 1)] = 1


ABOUT: dict[str, Any] = {"part": "toy", "method": "GET", "request": Countdown, "role": Role.READER, "says": "Count down."}
ASK = Operation(name="numbers", path="/toy/{start}", answer=Numbers, errors=(NotMatched,), **ABOUT)
BYTES = Operation(name="text", path="/toy/{start}/text", answer=bytes, media="text/plain", **ABOUT)
STREAM = Operation(name="follow", path="/toy/{start}/follow", answer=int, kind="stream", media="text/event-stream", **ABOUT)
JOB = Operation(name="slowly", path="/toy/{start}/slowly", answer=Numbers, kind="job", **{**ABOUT, "method": "POST", "role": Role.WRITER})
SECTION = Section("toy", ToySettings)


class ToyPerformer:
    def __init__(self, *, settings: Settings, **ground: Any) -> None:
        self._step = SECTION.of(settings).step

    def perform(self, log: object, operation: Operation[Any, Any], request: Countdown, who: str) -> Any:
        report(request.start, request.start)
        made, etag = Numbers(list(range(request.start, 0, -self._step))), f'"{request.start}"'
        if request.if_match not in (None, etag):
            raise NotMatched(f"It is {etag}.", hint="Ask without If-Match.")
        match operation.name:
            case "text":
                return b" ".join(b"%d" % number for number in made.numbers)
            case "numbers":
                return Reply(made, headers={"ETag": etag})
        return made

    async def stream(self, operation: Operation[Any, Any], request: Countdown) -> AsyncIterator[int]:
        for number in range(request.start, 0, -1):
            yield number


class Toy:
    """Counts down."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def numbers(self, start: int, *, if_match: str | None = None) -> Numbers:
        """Count down."""
        return await self._backend.ask(ASK, Countdown(start=start, if_match=if_match))

    async def text(self, start: int) -> bytes:
        """Count down as text."""
        return await self._backend.ask(BYTES, Countdown(start=start))

    async def follow(self, start: int) -> AsyncIterator[int]:
        """Count down, number by number."""
        async for number in self._backend.stream(STREAM, Countdown(start=start)):
            yield number

    async def slowly(self, start: int) -> Job[Numbers]:
        """Count down as a job."""
        return await self._backend.start(JOB, Countdown(start=start))


def group() -> typer.Typer:
    tree = typer.Typer()
    tree.command("numbers")(lambda start=3: typer.echo(str(start)))
    tree.callback()(lambda: None)
    return tree


TOY = PartDefinition(
    name="toy",
    door="toy",
    operations=(ASK, BYTES, STREAM, JOB),
    performs=f"{__name__}:ToyPerformer",
    offers=f"{__name__}:Toy",
    commands=f"{__name__}:group",
    sections=(SECTION,),
)
