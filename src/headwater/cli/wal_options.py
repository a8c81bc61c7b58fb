"""Arguments that the commands of regions share. REGION is `NAMESPACE/ID`; a bare ID is in the namespace `wal`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwater.cli import completion
from headwater.core.errors import BadInput
from headwater.wal.region_topics import RegionTopics, region_topics

if TYPE_CHECKING:
    from headwater.cli.at import At
    from headwater.client.blocking import BlockingOneRegion

USUAL = "wal"  # the namespace of a bare ID
_ID = re.compile("[0-9]{1,20}")
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


def region_named(text: str) -> RegionTopics:
    """Errors: `BadInput` for what names no region."""
    namespace, _, number = text.strip().rpartition("/")
    if not _ID.fullmatch(number):
        raise BadInput(f"{text.strip()!r} names no region.", hint="Write NAMESPACE/ID, such as wal/7; a bare ID is in the namespace wal.")
    return region_topics(namespace if "/" in text else USUAL, int(number))


@contextmanager
def region_at(at: At, name: str, *, changes: bool = False) -> Iterator[BlockingOneRegion]:
    """The region that a command is about. Errors: those of `At.door`."""
    topics = region_named(name)
    with at.door(changes=changes) as hw:
        yield hw.wal(topics.namespace)[topics.region]
