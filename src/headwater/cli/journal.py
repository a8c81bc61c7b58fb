"""`headwater journal`: event journals and their topics. The commands are in the files named journal_…"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from headwater.cli import journal_appending, journal_care, journal_changing, journal_looking, journal_reading, journal_replicating
from headwater.cli.usage import Command, Group

NOTE = (
    "TOPIC is such as bank, which is the topic journal-bank of the log. ID is the id of a journal: its first Append creates it. Events of "
    "a journal have numbers from 1 on, without gaps. What is appended is durable when the command prints its numbers."
)


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(cls=Group, help="Event journals: numbered events of many entities.", epilog=NOTE, no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (
        journal_changing.create,
        journal_looking.topics,
        journal_appending.append,
        journal_reading.read,
        journal_reading.follow,
        journal_looking.pointer,
        journal_changing.delete,
        journal_changing.purge,
        journal_changing.mark,
        journal_looking.ids,
        journal_looking.pointers,
        journal_looking.status,
        journal_looking.trail,
        journal_replicating.replicate,
        journal_care.dead,
        journal_care.expire,
        journal_care.verify,
        journal_care.rebuild,
    )
    for command in commands:
        listed: Any = command.listed  # type: ignore[attr-defined]
        tree.command(listed.name, cls=Command, epilog=f"For example: {listed.example}" if listed.example else None)(command)
    return tree
