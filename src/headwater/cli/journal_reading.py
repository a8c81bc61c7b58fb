"""`headwater journal read | follow`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_options import NOTHING_FOUND, Consistent, FailEmpty, JournalId, JournalTopic, cell, journal_at, topic_at
from headwater.cli.output import Column, counted, print_json_line, print_table, visible
from headwater.journal.event import check_range
from headwater.journal.position import FollowPosition

if TYPE_CHECKING:
    from headwater.journal.event import EventRecord

_SHOWN = 100  # events of a table
_COLUMNS = (Column("number", True), Column("time"), Column("tags"), Column("payload"))


@command(example="headwater journal read bank alice --from 3")
def read(
    topic: JournalTopic,
    id: JournalId,
    at: At,
    start: Annotated[int, typer.Option("--from", metavar="N", help="The number of the first event.")] = 1,
    stop: Annotated[int | None, typer.Option("--to", metavar="N", help="The number of the last event.", show_default=False)] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help=f"The most events; {_SHOWN} unless given, with --json all.", show_default=False),
    ] = None,
    consistency: Consistent = "end",
    fail_empty: FailEmpty = False,
) -> None:
    """Print the events of a journal, everything that is durable now. With `--json` one object a line, as they are read."""
    check_range(start, stop)
    most = limit if limit is not None or at.json else _SHOWN
    shown, more = 0, False
    rows: list[tuple[str, ...]] = []
    try:
        with journal_at(at, topic, id, changes=consistency == "mark") as journal:
            page_size = None if most is None else most + 1
            for event in journal.read(start, stop=stop, limit=page_size, consistency=consistency):
                if shown == most:
                    more = True
                    break
                shown += 1
                if at.json:
                    print_json_line(_shown(event))
                else:
                    rows.append(_row(event))
    finally:  # show the events before an unreadable one, too
        if rows:
            print_table(_COLUMNS, rows)
    at.note(f"{counted(shown, 'event')}.{' There are more; --limit N shows them, or --from N goes on.' if more else ''}")
    if fail_empty and not shown:
        raise typer.Exit(NOTHING_FOUND)


@command(example="headwater journal follow bank --tag deposit")
def follow(
    topic: JournalTopic,
    at: At,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this journal; may be given several times.", show_default=False)
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Only events with this tag; may be given several times.")
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="POSITION", help="Go on behind this position, which --json prints with each event; kept: what the log keeps."
        ),
    ] = None,
    copied: Annotated[bool, typer.Option("--copied", help="Read what the log has deleted from the store's copy.")] = False,
    most: Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="End after so many events.")] = None,
) -> None:
    """Print the events of a topic, those that were appended and then those that come, until Ctrl-C. With `--json` one object a line.

    It prints what was appended: later deletes and purges take nothing back.
    """
    FollowPosition.read(after or "")
    seen = 0
    with topic_at(at, topic) as journals, suppress(KeyboardInterrupt):  # Ctrl-C and SIGTERM are how it ends
        journals.pointers()  # an unknown topic is told before anything is printed
        for event in journals.follow(after, tags=tags or None, ids=ids or None, copied=copied):
            if at.json:
                print_json_line({"id": event.id, **_shown(event), "position": event.position})
            else:
                _, time, marked, payload = _row(event)
                words = (time, f"{visible(event.id)} {event.seq_nr}", visible(marked), visible(payload))
                sys.stdout.write("  ".join(word for word in words if word) + "\n")
            sys.stdout.flush()
            seen += 1
            if seen == most:
                break


def _row(event: EventRecord) -> tuple[str, ...]:
    from headwater.wire.times import show_time

    return str(event.seq_nr), str(show_time(event.timestamp))[:19].replace("T", " "), ",".join(event.tags), _payload(event)


def _payload(event: EventRecord) -> str:
    from headwater.log.json_form import show_bytes

    value = event.payload
    return cell(show_bytes(value, "binary") if isinstance(value, bytes) else value)


def _shown(event: EventRecord) -> dict[str, object]:
    """An event as JSON, without what it does not have."""
    from headwater.log.json_form import show_bytes
    from headwater.wire.times import show_time

    payload = event.payload
    shown = {
        "seq_nr": event.seq_nr,
        "payload": show_bytes(payload, "binary") if isinstance(payload, bytes) else payload,
        "tags": event.tags,
        "timestamp": show_time(event.timestamp),
        "partition": event.partition,
        "offset": event.offset,
        "origin": event.origin,
        "version": event.version,
        "metadata": event.metadata,
        "header_metadata": event.header_metadata,
        "headers": dict(event.headers),
    }
    return {name: value for name, value in shown.items() if name in ("payload", "tags") or value not in (None, {})}
