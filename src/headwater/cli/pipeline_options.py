"""Options and arguments that the pipeline commands share, and what they open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.log_opening import opened
from headwater.core.errors import BadInput
from headwater.core.settings import Settings

if TYPE_CHECKING:
    from headwater.pipeline.definition import Pipeline
    from headwater.pipeline.operator import Operator

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.", show_default=False)]
SinkName = Annotated[str, typer.Argument(metavar="SINK", help="The sink's name.", show_default=False)]
Offset = Annotated[int, typer.Argument(metavar="N", min=-1, help="The message's offset.", show_default=False)]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit.")]
DefinedIn = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="The pipeline's file, where it is not the one that ran last.")
]


@contextmanager
def operating(name: str, data: Path | None, config: Path | None, *, changes: bool = False) -> Iterator[tuple[Operator, Settings]]:
    """The pipeline of this name, to look at or to change."""
    from headwater.pipeline.operator import Operator

    with opened(data, config, read_only=not changes) as (log, settings):
        yield Operator(log, name), settings


def defined(operator: Operator, file: Path | None) -> Pipeline:
    """The definition that an operator's command sends by: the file of the last run, or another one."""
    from headwater.pipeline.loading import load_pipeline

    run = operator.state().run
    where = str(file) if file is not None else run.file if run is not None else ""
    if not where:
        raise BadInput(f"Where {operator.pipeline} is defined is not known.", hint="Name its file with --file FILE.")
    found = load_pipeline(where)
    if found.name != operator.pipeline:
        raise BadInput(f"{where} defines {found.name}, not {operator.pipeline}.", hint="Name the right file with --file FILE.")
    return found


def because(why: str) -> str:
    """The reason. Errors: `BadInput` where there is none: a change without a reason helps nobody later."""
    if not why.strip():
        raise BadInput("This change needs a reason.", hint='Add --why "...".')
    return why


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
