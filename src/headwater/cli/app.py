"""The tree of commands."""

from __future__ import annotations

import typer

from headwater import parts
from headwater.cli import config, demo, doctor, version
from headwater.cli.serve import serve
from headwater.wire.part import load

HELP = "One log at the source; event journals, documents, work queues and data pipelines downstream, all rebuilt from it."


def app() -> typer.Typer:
    """Every command, ready to run. Nothing heavy is imported until a command needs it."""
    tree = typer.Typer(
        name="headwater",
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    tree.callback()(_nothing_shared)
    tree.command("serve")(serve)
    tree.add_typer(demo.group(), name="demo")
    for part in parts.PARTS:
        if part.commands:
            tree.add_typer(load(part.commands)(), name=part.name)
    tree.command("config")(config.show_config)
    tree.command("doctor")(doctor.doctor)
    tree.command("version")(version.show_version)
    return tree


def _nothing_shared() -> None:
    """Every option belongs to a command; this only makes the root a group."""
