"""`headwater journal`: event journals and their topics. The commands are in the files named journal_…"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from headwater.cli import (
    journal_appending,
    journal_care,
    journal_changing,
    journal_ciphers,
    journal_looking,
    journal_projection,
    journal_reading,
    journal_replicating,
    journal_snapshots,
    journal_transferring,
)
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
        journal_ciphers.erase,
        journal_changing.mark,
        journal_snapshots.snapshot,
        journal_looking.ids,
        journal_looking.pointers,
        journal_looking.status,
        journal_looking.trail,
        journal_care.stats,
        journal_care.forks,
        journal_transferring.export,
        journal_transferring.import_,
        journal_replicating.replicate,
        journal_care.dead,
        journal_care.expire,
        journal_care.verify,
        journal_care.base,
        journal_care.rebuild,
        journal_ciphers.rotate,
        journal_ciphers.key,
    )
    for command in commands:
        listed: Any = command.listed  # type: ignore[attr-defined]
        tree.command(listed.name, cls=Command, epilog=f"For example: {listed.example}" if listed.example else None)(command)
    tree.add_typer(journal_projection.group(), name="projection")
    return tree
