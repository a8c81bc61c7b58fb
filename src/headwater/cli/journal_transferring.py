"""`headwater journal export | import`: journals as lines of JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_options import JournalTopic, topic_at
from headwater.cli.output import counted, print_json
from headwater.core.errors import BadInput


@command(example="headwater journal export bank --to bank.ndjson")
def export(
    topic: JournalTopic,
    at: At,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this journal; may be given several times.", show_default=False)
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write to a file, which appears when it is whole.", show_default=False)
    ] = None,
) -> None:
    """Print everything that the journals of a topic are, one Append a line, for `journal import`."""
    from headwater.wire import json

    journals = events = 0
    temporary = None if to is None else to.with_name(to.name + ".tmp")
    with ExitStack() as opened:
        stream: BinaryIO = sys.stdout.buffer if temporary is None else opened.enter_context(temporary.open("wb"))
        with topic_at(at, topic) as held:
            for line in held.export(ids=ids or None):
                stream.write(json.encode(line) + b"\n")
                if line.end is not None:
                    journals, events = line.end.journals, line.end.events
        stream.flush()
    if temporary is not None and to is not None:
        temporary.replace(to)
    at.note(f"{counted(events, 'event')} of {counted(journals, 'journal')}.")


@command("dry_run", example="headwater journal import bank bank.ndjson", name="import")
def import_(
    topic: JournalTopic,
    at: At,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="What `journal export` has written; or standard input.", show_default=False),
    ] = None,
) -> None:
    """Import journals that `journal export` has written. What is there already is passed over, so an import may be begun again."""
    with ExitStack() as opened:
        try:
            stream: BinaryIO = sys.stdin.buffer if file is None else opened.enter_context(file.open("rb"))
        except OSError as error:
            raise BadInput(
                f"{file} cannot be read: {error.strerror}.", hint="Name a file that `headwater journal export` has written."
            ) from None
        with topic_at(at, topic, changes=True) as journals:
            done = journals.import_lines(_lines(stream), dry_run=at.dry_run)
    if at.json:
        print_json(done)
    else:
        was = "was" if done.there == 1 else "were"
        there = f"; {counted(done.there, 'line')} {was} there already" if done.there else ""
        would = "Would import" if at.dry_run else "Imported"
        typer.echo(f"{would} {counted(done.events, 'event')} in {counted(done.appends, 'Append')}{there}.")


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    yield from stream
