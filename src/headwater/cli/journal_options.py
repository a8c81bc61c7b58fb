"""Arguments that the commands of journals share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import completion
from headwater.journal.names import check_id
from headwater.journal.requests import Consistency
from headwater.log.record import check_topic_name

if TYPE_CHECKING:
    from headwater.cli.at import At
    from headwater.client.blocking import BlockingJournal, BlockingTopicJournals

NOTHING_FOUND = 10
JournalTopic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic of the journals.", show_default=False, autocompletion=completion.journal_topics)
]
JournalTopicIfAny = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", help="One topic instead of all.", show_default=False, autocompletion=completion.journal_topics),
]
JournalId = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the journal.", show_default=False, autocompletion=completion.journal_ids)
]
Consistent = Annotated[
    Consistency,
    typer.Option("--consistency", help="end: everything durable now; mark: the same, through a mark; store: what is copied alone."),
]
FailEmpty = Annotated[bool, typer.Option("--fail-empty", help="End with exit code 10 when nothing was found.")]


@contextmanager
def topic_at(at: At, name: str, *, changes: bool = False) -> Iterator[BlockingTopicJournals]:
    """The topic that a command is about. Errors: those of `At.door`."""
    check_topic_name(name)
    with at.door(changes=changes) as hw:
        yield hw.journals(name)


@contextmanager
def journal_at(at: At, topic: str, id: str, *, changes: bool = False) -> Iterator[BlockingJournal]:
    """The journal that a command is about. Errors: those of `At.door`, and `BadInput` for what is no id."""
    check_id(id)
    with topic_at(at, topic, changes=changes) as journals:
        yield journals[id]


def cell(value: Any) -> str:
    """A value as a cell of a table: text as it is, else JSON."""
    if isinstance(value, str):
        return value
    import msgspec

    return msgspec.json.encode(value).decode()


def time_cell(time: str | int | None) -> str:
    """A time, short enough for a table: 11-16 04:00:00."""
    return "-" if time is None else f"{time[5:10]} {time[11:19]}" if isinstance(time, str) else str(time)
