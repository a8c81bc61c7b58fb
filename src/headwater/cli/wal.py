"""`headwater wal`."""

from __future__ import annotations

import typer

from headwater.cli.usage import Group


def group() -> typer.Typer:
    """The commands of the group."""
    return typer.Typer(cls=Group, help="Write-ahead log regions: many tables, one log.", no_args_is_help=True)
