"""Options that several commands share, and the settings that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli import completion
from headwater.core.config import Config, Flag, load

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DataDir = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data directory (setting `data`).")]
ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="A server elsewhere instead of a directory (HEADWATER_SERVER, HEADWATER_TOKEN); none: read past the directory's server.",
    ),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The config file instead of ./headwater.toml.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False, autocompletion=completion.topics)]
TopicIfAny = Annotated[
    str | None, typer.Argument(metavar="TOPIC", help="One topic instead of all.", show_default=False, autocompletion=completion.topics)
]
PartitionNumber = Annotated[int | None, typer.Option("--partition", "-p", metavar="N", help="The partition, counted from 0.")]


def settings_from(data: Path | None, config: Path | None) -> Config:
    """The settings of this run, `--data` on top."""
    return load(file=config, flags={"data": Flag("--data", data)})
