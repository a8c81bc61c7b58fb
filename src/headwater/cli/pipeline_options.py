"""Options and arguments that the pipeline commands share, and what they open."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.log_opening import opened
from headwater.core.errors import BadInput

if TYPE_CHECKING:
    from headwater.pipeline.operating.desk import Desk

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.", show_default=False)]
SinkName = Annotated[str, typer.Argument(metavar="SINK", help="The sink's name.", show_default=False)]
Offset = Annotated[int, typer.Argument(metavar="N", min=-1, help="The message's offset.", show_default=False)]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit.")]
DefinedIn = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="The pipeline's file, where it is not the one that ran last.")
]


@contextmanager
def operating(name: str, data: Path | None, config: Path | None, *, changes: bool = False, file: Path | None = None) -> Iterator[Desk]:
    """The pipeline of this name, to look at or to change."""
    from headwater.pipeline.operating.desk import Desk

    with opened(data, config, read_only=not changes) as (log, settings):
        yield Desk(log, name, file=file, settings=settings)


@contextmanager
def sending(name: str, data: Path | None, config: Path | None, file: Path | None, *, changes: bool = True) -> Iterator[Desk]:
    """The same, to send to its sinks or to read them: in the folder where it was run, or relative paths would mean other files.

    Errors: `NotFound` where that folder is gone.
    """
    with operating(name, data, config, changes=changes, file=file) as desk:
        folder = desk.folder()
        if file is None and folder is not None:
            os.chdir(folder)
        yield desk


def span(text: str) -> tuple[int, int]:
    """`X` or `X..Y`, both included. Errors: `BadInput`."""
    found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", text)
    if found is None:
        raise BadInput(f"{text!r} is no range of messages.", hint="Write X or X..Y, both included.")
    first = int(found[1])
    last = int(found[2]) if found[2] else first
    if last < first:
        raise BadInput(f"{text} is the wrong way round.", hint="Give the lower one first.")
    return first, last
