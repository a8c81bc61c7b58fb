"""Arguments that the commands of regions share. REGION is `NAMESPACE/ID`; a bare ID is in the namespace `wal`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwater.cli import completion
from headwater.wal.region_topics import region_named

if TYPE_CHECKING:
    from headwater.cli.at import At
    from headwater.client.blocking import BlockingOneRegion

_HELP = "NAMESPACE/ID, such as wal/7. A bare ID is in the namespace wal."
RegionName = Annotated[str, typer.Argument(metavar="REGION", help=_HELP, show_default=False, autocompletion=completion.regions)]
RegionIfAny = Annotated[
    str | None,
    typer.Argument(metavar="REGION", help=f"{_HELP} Left out: every region.", show_default=False, autocompletion=completion.regions),
]
TableNumber = Annotated[
    int, typer.Argument(metavar="TABLE", help="The number of the table.", show_default=False, autocompletion=completion.wal_tables)
]
Decode = Annotated[
    Literal["text", "json", "hex"], typer.Option("--decode", help="How payloads are shown. Bytes that are no text appear as base64.")
]


@contextmanager
def region_at(at: At, name: str, *, changes: bool = False) -> Iterator[BlockingOneRegion]:
    """The region that a command is about. Errors: those of `At.door`."""
    topics = region_named(name)
    with at.door(changes=changes) as hw:
        yield hw.wal(topics.namespace)[topics.region]
