"""`headwater pipeline stop | offset | ack | edit | compact`: changes of the offset log, beside a live run, audited."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.options import ConfigFile, DataDir, DryRun, Json
from headwater.cli.output import Column, count, print_json, print_table
from headwater.cli.pipeline_looking import PLACES, place_row
from headwater.cli.pipeline_options import Name, Offset, SinkName, Why, operating
from headwater.core.errors import BadInput

if TYPE_CHECKING:
    from headwater.pipeline.operating.answers import Answer


def stop(name: Name, why: Why = "", dry_run: DryRun = False, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Ask a live run to finish what it has begun, and stop."""
    with operating(name, data, config, changes=not dry_run) as desk:
        said = desk.stop(why=why, dry_run=dry_run)
    _said(said, f"{name} {'would be' if dry_run else 'is'} asked to stop.", json)


def offset(
    name: Name,
    verb: Annotated[str, typer.Argument(metavar="list|show|mark|delete", help="What to do.", show_default=False)],
    sink: Annotated[str | None, typer.Argument(metavar="[SINK]", help="The sink's name.", show_default=False)] = None,
    position: Annotated[
        int | None, typer.Argument(metavar="[N]", min=-1, help="The last message to count as taken.", show_default=False)
    ] = None,
    why: Why = "",
    dry_run: DryRun = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Look at and change positions: of all sinks, of one by namespace; move one, or forget a sink that is no more."""
    changes = verb in ("mark", "delete") and not dry_run
    with operating(name, data, config, changes=changes) as desk:
        if verb == "list":
            found = desk.offsets()
            print_json(found) if json else print_table(PLACES, [place_row(one) for one in found])
            return
        if verb not in ("show", "mark", "delete"):
            raise BadInput(f"offset knows no {verb}.", hint="Use list, show, mark or delete.")
        if sink is None:
            raise BadInput("Which sink?", hint=f"List them with `headwater pipeline offset {name} list`.")
        if verb == "show":
            one = desk.offset(sink)
            if json:
                print_json(one)
            else:
                print_table([Column("namespace"), Column("offset", True)], [(key, str(at)) for key, at in sorted(one.namespaces.items())])
        elif verb == "mark":
            if position is None:
                raise BadInput("Which offset?", hint=f"As in `headwater pipeline offset {name} mark {sink} 12 --why ...`.")
            moved = desk.mark(sink, position, why=why, dry_run=dry_run)
            _said(moved, f"{sink} {'would be' if dry_run else 'is'} at {moved.position}; it was at {moved.before}.", json)
        else:
            _said(desk.delete(sink, why=why, dry_run=dry_run), f"{sink} {'would be' if dry_run else 'is'} forgotten.", json)


def ack(
    name: Name,
    sink: SinkName,
    message: Offset,
    why: Why = "",
    dry_run: DryRun = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Count a message as taken by a sink without sending it."""
    with operating(name, data, config, changes=not dry_run) as desk:
        said = desk.ack(sink, message, why=why, dry_run=dry_run)
    _said(said, f"Message {message} {'would count' if dry_run else 'counts'} as taken by {sink}, which is at {said.position}.", json)


def edit(
    name: Name,
    message: Offset,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="PATH=JSON", help="Give a field this value; may be repeated.")] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="PATH", help="Take a field away; may be repeated.")] = None,
    document: Annotated[Path | None, typer.Option("--doc", metavar="FILE", help="The whole document as JSON; - is standard input.")] = None,
    sink: Annotated[str, typer.Option("--sink", metavar="SINK", help="For this sink only.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Deliver the original again.")] = False,
    why: Why = "",
    dry_run: DryRun = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Correct a message: from now on a corrected copy is delivered in its place. The original stays in the log."""
    if sum((bool(set_ or unset), document is not None, undo)) != 1:
        raise BadInput("What is to be corrected?", hint="Give --set PATH=JSON (or --unset PATH), or --doc FILE, or --undo.")
    with operating(name, data, config, changes=not dry_run) as desk:
        if undo:
            undone = desk.undo(message, why=why, sink=sink, dry_run=dry_run)
            _said(undone, f"Message {message} {'would be' if dry_run else 'is'} delivered as it was read.", json)
            return
        whole = _document(document) if document is not None else None
        made = desk.edit(message, whole, set=_given(set_ or []), unset=unset or [], sink=sink, why=why, dry_run=dry_run)
    from headwater.pipeline import values

    text = values.encode(made.data).decode()
    _said(made, f"Message {message} {'would be' if dry_run else 'is'} delivered as {text}", json)


def _document(path: Path) -> dict[str, Any]:
    from headwater.pipeline import values

    try:
        text = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.", hint="Name a file with the document as JSON.") from error
    return values.decode(text.strip())


def _given(changes: list[str]) -> dict[str, Any]:
    from headwater.pipeline import values

    given: dict[str, Any] = {}
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path:
            raise BadInput(f"{change!r} sets nothing.", hint="Write PATH=JSON, as in --set price=12.5 or --set 'name=\"Ann\"'.")
        try:
            given[path] = values.decode_any(text)
        except BadInput:
            raise BadInput(f"{text!r} is no JSON.", hint=f"Text stands in quotes: --set '{path}=\"{text}\"'.") from None
    return given


def compact(name: Name, dry_run: DryRun = False, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Keep, below what every sink has taken, only the last message of each namespace; and only the newest positions."""
    with operating(name, data, config, changes=not dry_run) as desk:
        done = desk.compact(dry_run=dry_run)
    if dry_run:
        _said(done, f"Closed segments below {done.before} would be compacted.", json)
        return
    _said(done, f"Below {done.before}: {count(done.records_before)} messages became {count(done.records_after)}.", json)


def _said(value: Answer, text: str, json: bool) -> None:
    print_json(value) if json else typer.echo(text)
