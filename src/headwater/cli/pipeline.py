"""`headwater pipeline`: make, test, run, inspect and correct pipelines. The commands are in the files named pipeline_…"""

from __future__ import annotations

import typer

from headwater.cli import pipeline_changing, pipeline_looking, pipeline_making, pipeline_running, pipeline_sending
from headwater.cli.command import commands_of
from headwater.cli.usage import Command, Group

NOTE = (
    "A run that stops at a message says which commands come next. All of them work beside a live run, and every change is audited: "
    "who, when, what and why."
)


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(cls=Group, help="Move data between systems, with nothing lost.", epilog=NOTE, no_args_is_help=True)
    for module in (pipeline_making, pipeline_running, pipeline_looking, pipeline_changing, pipeline_sending):
        for (name, example), command in commands_of(module):
            tree.command(name, cls=Command, epilog=f"For example: {example}" if example else None)(command)
    return tree
