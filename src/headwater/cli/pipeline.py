"""`headwater pipeline`: define, try, run, look, and put right. The commands are in the files named pipeline_…"""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

from headwater.cli import pipeline_changing, pipeline_looking, pipeline_making, pipeline_running, pipeline_sending
from headwater.cli.command import commands_of

NOTE = (
    "A run that stops at a message says which commands come next. All of them work beside a live run, and every change is audited: "
    "who, when, what and why."
)


class Numbers(TyperCommand):
    """A command whose arguments may be negative numbers: `offset NAME mark SINK -1` means the beginning, and is no option -1."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if re.fullmatch(r"-\d+", word) else word for word in args])


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(help="Move data between systems, with nothing lost.", epilog=NOTE, no_args_is_help=True)
    for module in (pipeline_making, pipeline_running, pipeline_looking, pipeline_changing, pipeline_sending):
        for (name, example), command in commands_of(module):
            tree.command(name, cls=Numbers, epilog=f"For example: {example}" if example else None)(command)
    return tree
