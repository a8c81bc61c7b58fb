"""Arguments that the commands of queues share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli import completion
from headwater.core.errors import BadInput
from headwater.queue.requests import checked_name

if TYPE_CHECKING:
    from headwater.cli.at import At
    from headwater.client.blocking import BlockingOneQueue

NOTHING_FOUND = 10
QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The name of the queue.", show_default=False, autocompletion=completion.queues)
]
QueueIfAny = Annotated[
    str | None, typer.Argument(metavar="QUEUE", help="One queue instead of all.", show_default=False, autocompletion=completion.queues)
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key of the row.", show_default=False, autocompletion=completion.queue_keys)]
Tokens = Annotated[list[str], typer.Argument(metavar="TOKEN", help="Tokens of claims.", show_default=False)]
Token = Annotated[str, typer.Argument(metavar="TOKEN", help="The token of the claim.", show_default=False)]
Lease = Annotated[str | None, typer.Option("--lease", metavar="DURATION", help="The lease, such as 60s; as the queue says unless given.")]
Group = Annotated[str, typer.Option("--group", metavar="NAME", help="The consumer group: slow rows wait while it has others.")]
KeyPrefix = Annotated[str, typer.Option("--key", metavar="TEXT", help="Only rows whose key begins so.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The most rows to show.")]
FailEmpty = Annotated[bool, typer.Option("--fail-empty", help="End with exit code 10 when nothing was found.")]
State = Literal["due", "future", "held", "processing"]
Reason = Literal["timeouts", "attempts", "given-up"]


@contextmanager
def queue_at(at: At, name: str) -> Iterator[BlockingOneQueue]:
    """The queue that a command is about. Without a server the command owns it meanwhile. Errors: those of `At.door`."""
    checked_name(name)
    with at.door(changes=True) as hw:
        yield hw.queue(name)


def cell(value: Any) -> str:
    """A value as a cell of a table."""
    if isinstance(value, str):
        return value
    import msgspec

    return msgspec.json.encode(value).decode()


def short(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def when(date: str | None) -> str:
    """A date, short enough for a table: 11-16 04:00:00."""
    return "-" if date is None else f"{date[5:10]} {date[11:19]}"


def json_or_text(written: str | None) -> Any:
    """JSON as it was written; other text as text. Errors: `BadInput` for numbers that JSON cannot hold, such as NaN."""
    if written is None:
        return None
    import json

    import msgspec

    from headwater.wire.json import UNREADABLE

    try:
        msgspec.json.decode(written.encode())
        return msgspec.Raw(written.encode())
    except UNREADABLE:
        pass
    try:
        json.loads(written)
    except (ValueError, RecursionError):
        return written
    raise BadInput("It has a number that JSON cannot hold, such as NaN or 1e999.", hint="Write null, or text in quotes, in its place.")
