"""`headwater log`: topics, their records, and their care. The commands are in the files named log_…"""

from __future__ import annotations

from collections.abc import Callable

import typer

from headwater.cli import log_care, log_reading, log_topics

NOTE = (
    "These commands open the data directory (or Kafka) themselves, also while a server runs on it: several processes may use one log. "
    "Only `repair` wants its partition for itself."
)


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(help="Topics and their records.", epilog=NOTE, no_args_is_help=True)
    commands: dict[str, Callable[..., None]] = {
        "topics": log_topics.topics,
        "create": log_topics.create,
        "stats": log_topics.stats,
        "show": log_reading.show,
        "tail": log_reading.tail,
        "check": log_care.check,
        "repair": log_care.repair,
        "compact": log_care.compact,
        "import": log_care.import_directory,
        "delete-before": log_topics.delete_before,
        "delete-topic": log_topics.delete_topic,
    }
    for name, command in commands.items():
        tree.command(name)(command)
    return tree
