"""`headwater wal`: regions, their tables, and their care. The commands are in the files named wal_…"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from headwater.cli import wal_changing, wal_looking
from headwater.cli.usage import Command, Group

NOTE = (
    "REGION is NAMESPACE/ID, such as wal/7; a bare ID is in the namespace wal. A region is written by one process at a time: the server of "
    "the directory, or else the command itself. Looking needs no ownership, and creates nothing."
)


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(cls=Group, help="Write-ahead log regions: many tables, one log.", epilog=NOTE, no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (
        wal_looking.regions,
        wal_changing.create,
        wal_looking.tables,
        wal_changing.write,
        wal_looking.read,
        wal_looking.scan,
        wal_changing.mark,
        wal_changing.drop,
        wal_changing.move,
        wal_changing.clean,
        wal_changing.recover,
        wal_changing.delete,
        wal_looking.verify,
        wal_looking.stats,
        wal_looking.why,
    )
    for command in commands:
        listed: Any = command.listed  # type: ignore[attr-defined]
        tree.command(listed.name, cls=Command, epilog=f"For example: {listed.example}" if listed.example else None)(command)
    return tree
