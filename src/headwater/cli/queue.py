"""`headwater queue`: queues, their rows, and their workers. The commands are in the files named queue_…"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from headwater.cli import queue_claiming, queue_dead, queue_looking, queue_making, queue_working
from headwater.cli.usage import Command, Group

NOTE = (
    "A row has a key, data, a priority (0 first, 255 last) and a date. A row that is put while another of its key waits is merged into "
    "that one. A queue is owned by one process at a time: the server of the directory, or else the command itself."
)


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(cls=Group, help="Work queues: rows that workers claim, run and finish.", epilog=NOTE, no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (
        queue_making.create,
        queue_looking.list_queues,
        queue_looking.show,
        queue_making.put,
        queue_claiming.claim,
        queue_claiming.done,
        queue_claiming.result,
        queue_claiming.extend,
        queue_claiming.fail,
        queue_claiming.release,
        queue_making.cancel,
        queue_making.run_now,
        queue_looking.get,
        queue_looking.rows,
        queue_looking.count_rows,
        queue_dead.dead,
        queue_making.pause,
        queue_making.resume,
        queue_looking.stats,
        queue_looking.history,
        queue_looking.schedules,
        queue_looking.listen,
        queue_working.work,
        queue_making.delete,
    )
    for command in commands:
        listed: Any = command.listed  # type: ignore[attr-defined]
        tree.command(listed.name, cls=Command, epilog=f"For example: {listed.example}" if listed.example else None)(command)
    return tree
