"""`headwater log`: topics, their records, and their care. The commands are in the files named log_…"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from headwater.cli import log_appending, log_care, log_reading, log_topics
from headwater.cli.usage import Command, Group

NOTE = (
    "A server that serves the data directory is gone through; a server elsewhere is named with --server. `check`, `repair` and `import` "
    "work on the files themselves, and only `repair` wants its partition for itself."
)


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(cls=Group, help="Topics and their records.", epilog=NOTE, no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (
        log_topics.topics,
        log_topics.create,
        log_topics.stats,
        log_appending.append,
        log_reading.show,
        log_reading.tail,
        log_care.check,
        log_care.repair,
        log_care.compact,
        log_care.import_directory,
        log_topics.delete_before,
        log_topics.delete_topic,
    )
    for command in commands:
        listed: Any = command.listed  # type: ignore[attr-defined]
        tree.command(listed.name, cls=Command, epilog=f"For example: {listed.example}" if listed.example else None)(command)
    return tree
