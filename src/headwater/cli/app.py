"""The tree of commands."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater import parts
from headwater.cli import config, demo, doctor, version
from headwater.cli.serve import serve
from headwater.cli.usage import Command, Group
from headwater.wire.part import load

HELP = "One log at the source; event journals, documents, work queues and data pipelines downstream, all rebuilt from it."


def app() -> typer.Typer:
    """The tree of all commands. Commands import heavy modules only when they run."""
    tree = typer.Typer(
        name="headwater",
        cls=Group,
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    tree.callback()(_root)
    tree.command("serve", cls=Command)(serve)
    tree.add_typer(demo.group(), name="demo")
    for part in parts.PARTS:
        if part.commands:
            tree.add_typer(load(part.commands)(), name=part.command or part.name)
    tree.command("config", cls=Command)(config.show_config)
    tree.command("doctor", cls=Command)(doctor.doctor)
    tree.command("version", cls=Command)(version.show_version)
    return tree


def _root(
    shown: Annotated[
        bool, typer.Option("--version", help="Print the version of headwater and end.", is_eager=True, callback=version.print_version)
    ] = False,
) -> None:
    """Every other option belongs to a command."""
