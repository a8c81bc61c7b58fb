"""Arguments that the commands of documents share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import completion
from headwater.core.errors import BadInput

if TYPE_CHECKING:
    from headwater.cli.at import At
    from headwater.client.blocking import BlockingResource
    from headwater.documents.answers import HyperStorageTransactionCreated

NOTHING_FOUND = 10
_LONGEST = 256 << 20  # bytes of standard input
DocPath = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="A document, a collection (ends with ~) or an item.", show_default=False, autocompletion=completion.documents
    ),
]
CollectionPath = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="The collection, such as shop/catalogue~.", show_default=False, autocompletion=completion.documents
    ),
]
Body = Annotated[str | None, typer.Argument(metavar="BODY", help="JSON; left out: standard input.", show_default=False)]
IfMatch = Annotated[
    str | None, typer.Option("--if-match", metavar="REVISION", help="Only if it has this revision; another one is exit code 4.")
]
IfAbsent = Annotated[bool, typer.Option("--if-absent", help="Only if it is not there; else exit code 4.")]
Ttl = Annotated[str | None, typer.Option("--ttl", metavar="DURATION", help="Delete it so long after this, such as 10m.")]
IdempotencyKey = Annotated[
    str | None, typer.Option("--idempotency-key", metavar="TEXT", help="A write that is sent twice under it is done once, for a day.")
]
Filter = Annotated[
    str | None, typer.Option("--filter", metavar="EXPRESSION", help="Only items that fulfil it, such as 'price > 10 and name = \"hat\"'.")
]
Sort = Annotated[
    str | None, typer.Option("--sort", metavar="FIELDS", help="The order, such as price:desc,name. Write --sort=-price with a sign.")
]
FailEmpty = Annotated[bool, typer.Option("--fail-empty", help="End with exit code 10 when nothing was found.")]


@contextmanager
def resource_at(at: At, path: str, *, changes: bool = False) -> Iterator[BlockingResource]:
    """What a command is about. Errors: those of `At.door`, and `BadPath`."""
    from headwater.documents.path import parse_path

    parse_path(path)
    with at.door(changes=changes) as hw:
        yield hw.documents[path]


def json_body(written: str | None) -> Any:
    """The JSON of an argument or of standard input, as it is written. Errors: `BadInput`."""
    import msgspec

    from headwater.wire.json import UNREADABLE

    text = sys.stdin.buffer.read(_LONGEST + 1) if written is None else written.encode(errors="surrogateescape")
    if len(text) > _LONGEST:
        raise BadInput("Standard input is too much for one document.", hint="Keep large data in files, and their places in documents.")
    try:
        msgspec.json.decode(text)
    except UNREADABLE as error:
        raise BadInput(f"The body is no JSON: {error}.", hint="Write such as '{\"price\": 12}', text as '\"text\"'.") from None
    return msgspec.Raw(text.strip())


def tag_of(revision: str | None) -> str | int | None:
    """If-Match as the door takes it: a revision, an etag, or *. Errors: `BadInput`."""
    return int(revision) if revision is not None and revision.isdecimal() else revision


def told_write(at: At, done: HyperStorageTransactionCreated, what: str) -> None:
    """Print what a write did."""
    later = "" if done.state == "applied" else " The store has it later; reads have it now."
    at.answered(done, f"{done.path} is {what}: revision {done.revision}.{later}")


def json_text(value: Any) -> str:
    """A value as JSON on one line."""
    from headwater.wire import json

    return json.encode(value).decode()
