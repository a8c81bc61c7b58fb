"""Arguments that the pipeline commands share, and the pipeline that they name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.usage import UsageMistake

if TYPE_CHECKING:
    from headwater.client.blocking import BlockingOnePipeline
    from headwater.core.settings import Settings
    from headwater.log import Log
    from headwater.pipeline.operating.operations import PipelineOperations


def offset_of(text: str) -> int:
    """A message's offset, as it is typed."""
    if not re.fullmatch(r" ?-?[0-9]{1,18}", text):
        raise typer.BadParameter(f"{text.strip()!r} is no offset; messages are counted from 0.")
    return int(text)


Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.", show_default=False, autocompletion=completion.pipelines)]
SinkName = Annotated[str, typer.Argument(metavar="SINK", help="The sink's name.", show_default=False, autocompletion=completion.sinks)]
SinkIfAny = Annotated[
    str | None, typer.Argument(metavar="SINK", help="The sink's name.", show_default=False, autocompletion=completion.sinks)
]
Offset = Annotated[int, typer.Argument(metavar="N", parser=offset_of, help="The message's offset.", show_default=False)]
OffsetIfAny = Annotated[int | None, typer.Argument(metavar="N", parser=offset_of, help="The message's offset.", show_default=False)]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit.")]
Reason = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit. A change needs one.")]


@contextmanager
def opened(at: At, name: str, *, changes: bool = False) -> Iterator[BlockingOnePipeline]:
    """The pipeline of this name, for reading or changing; a dry run only reads."""
    with at.door(changes=changes and not at.dry_run) as hw:
        yield hw.pipelines[name]


@contextmanager
def sending(at: At, name: str, *, changes: bool = True) -> Iterator[BlockingOnePipeline | PipelineOperations]:
    """The pipeline of this name, for sending to its sinks or reading them back, which runs the pipeline's file.

    A server runs the file of the last run in a subprocess. Without a server, or with another `--file`, this process runs the file, with its
    own environment and Spark, in the folder of the last run, because relative paths would name other files elsewhere. Errors:
    `UsageMistake` for a file that a server elsewhere should run, `NotFound` where that folder is gone.
    """
    if at.file is not None and at.named_server() is not None:
        raise UsageMistake(
            f"A server runs the file that {name} ran last with; it takes no --file.",
            hint="Leave it out, or run the command where the data are.",
        )
    if at.file is None and at.serving() is not None:
        with opened(at, name, changes=changes) as pipeline:
            yield pipeline
        return
    from headwater.pipeline.operating.operations import PipelineOperations

    with _log_of(at, name, changes=changes and not at.dry_run) as (log, settings):
        operations = PipelineOperations(log, name, file=at.file, settings=settings)
        folder = operations.folder()
        if at.file is None and folder is not None:
            os.chdir(folder)
        yield operations


@contextmanager
def _log_of(at: At, name: str, *, changes: bool) -> Iterator[tuple[Log, Settings]]:
    """The log that holds the pipeline, which may be in a directory of its own."""
    from headwater.log.opening import open_log
    from headwater.pipeline.operating.log_dirs import address, log_dirs

    settings = at.settings()
    own = log_dirs(settings.data).get(name)
    if own is None:
        with at.log(changes=changes) as log:
            yield log, settings
        return
    with at.told(), open_log(address(name, own), read_only=not changes) as log:
        yield log, settings


def no_more(verb: str, *arguments: object) -> None:
    """Refuse arguments that a verb does not take. Errors: `UsageMistake`."""
    for word in arguments:
        if word is not None:
            raise UsageMistake(f"{verb} takes no {str(word).strip()!r}.", hint="Leave it out, or see --help for what takes it.")


def several(number: int, what: str, verb: str = "") -> str:
    """`1 message is`, `2 messages are`."""
    from headwater.cli.output import count

    verbs = {"is": "are", "has": "have"}
    words = [count(number), what if number == 1 else f"{what}s", verb if number == 1 else verbs.get(verb, verb)]
    return " ".join(word for word in words if word)
