"""`headwater pipeline`: define, try, run, look, and put right. The commands are in the files named pipeline_…"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from headwater.cli import pipeline_changing, pipeline_looking, pipeline_making, pipeline_running, pipeline_sending

NOTE = (
    "A run that stops at a message says which commands come next. All of them work beside a live run, and every change is audited: "
    "who, when, what and why."
)
EXAMPLES = {
    "run": "headwater pipeline run orders.py --follow",
    "xlog": "headwater pipeline xlog shop show 10..18",
    "offset": 'headwater pipeline offset shop mark report 12 --why "the table was restored"',
    "step": "headwater pipeline step shop report --count 5",
    "ack": 'headwater pipeline ack shop report 14 --why "a test order"',
    "edit": 'headwater pipeline edit shop 14 --set price=0.85 --set \'name="Ann"\' --why "left out"',
    "replay": 'headwater pipeline replay shop report 3..14 --why "lost"',
    "dead": 'headwater pipeline dead shop retry 14 --why "mended"',
}


class Numbers(TyperCommand):
    """A command whose arguments may be negative numbers: `offset NAME mark SINK -1` means the beginning, and is no option -1."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if re.fullmatch(r"-\d+", word) else word for word in args])


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(help="Move data between systems, with nothing lost.", epilog=NOTE, no_args_is_help=True)
    commands: dict[str, Callable[..., None]] = {
        "init": pipeline_making.init,
        "about": pipeline_making.about,
        "test": pipeline_making.try_it,
        "run": pipeline_running.run,
        "list": pipeline_looking.list_pipelines,
        "status": pipeline_looking.status,
        "stop": pipeline_changing.stop,
        "xlog": pipeline_looking.xlog,
        "offset": pipeline_changing.offset,
        "step": pipeline_sending.step,
        "ack": pipeline_changing.ack,
        "edit": pipeline_changing.edit,
        "replay": pipeline_sending.replay,
        "dead": pipeline_sending.dead,
        "compact": pipeline_changing.compact,
        "verify": pipeline_sending.verify,
        "audit": pipeline_looking.audit,
    }
    for name, command in commands.items():
        tree.command(name, cls=Numbers, epilog=f"For example: {EXAMPLES[name]}" if name in EXAMPLES else None)(command)
    return tree
