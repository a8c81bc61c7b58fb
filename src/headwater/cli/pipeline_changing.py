"""`headwater pipeline stop | offset | ack | edit | compact`: changes of the offset log, beside a live run, audited."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from headwater.cli.options import ConfigFile, DataDir, DryRun, Json
from headwater.cli.output import Column, count, print_json, print_table
from headwater.cli.pipeline_looking import where_row
from headwater.cli.pipeline_options import Name, Offset, SinkName, Why, because, operating
from headwater.core.errors import BadInput


def stop(name: Name, why: Why = "", dry_run: DryRun = False, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Ask a live run to finish what it has begun, and stop."""
    with operating(name, data, config, changes=not dry_run) as (operator, _):
        operator.stop(why=why, dry_run=dry_run)
    _said({"pipeline": name, "stopping": True, "dry_run": dry_run}, f"{name} {'would be' if dry_run else 'is'} asked to stop.", json)


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
    with operating(name, data, config, changes=changes) as (operator, _):
        if verb == "list":
            found = [msgspec.to_builtins(one) for one in operator.sinks()]
            columns = [Column("sink"), Column("position", True), Column("end", True), Column("lag", True), Column("state"), Column("error")]
            print_json(found) if json else print_table(columns, [where_row(one) for one in found])
            return
        if verb not in ("show", "mark", "delete"):
            raise BadInput(f"offset knows no {verb}.", hint="Use list, show, mark or delete.")
        if sink is None:
            raise BadInput("Which sink?", hint=f"List them with `headwater pipeline offset {name} list`.")
        if verb == "show":
            names, state = operator.namespaces(sink), operator.sink(sink)
            if json:
                print_json({"sink": sink, "position": state.position, "taken": state.taken, "namespaces": names})
            else:
                print_table([Column("namespace"), Column("offset", True)], [(one, str(at)) for one, at in sorted(names.items())])
        elif verb == "mark":
            if position is None:
                raise BadInput("Which offset?", hint=f"As in `headwater pipeline offset {name} mark {sink} 12 --why ...`.")
            before = operator.sink(sink).position
            after = operator.mark(sink, position, why=because(why), dry_run=dry_run)
            said = {"sink": sink, "before": before, "position": after.position, "dry_run": dry_run}
            _said(said, f"{sink} {'would be' if dry_run else 'is'} at {after.position}; it was at {before}.", json)
        else:
            operator.delete(sink, why=because(why), dry_run=dry_run)
            _said({"sink": sink, "deleted": not dry_run, "dry_run": dry_run}, f"{sink} {'would be' if dry_run else 'is'} forgotten.", json)


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
    with operating(name, data, config, changes=not dry_run) as (operator, _):
        after = operator.ack(sink, message, why=because(why), dry_run=dry_run)
    said = {"sink": sink, "offset": message, "position": after.position, "dry_run": dry_run}
    _said(said, f"Message {message} {'would count' if dry_run else 'counts'} as taken by {sink}, which is at {after.position}.", json)


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
    with operating(name, data, config, changes=not dry_run) as (operator, _):
        if undo:
            operator.undo(message, why=because(why), sink=sink, dry_run=dry_run)
            _said({"offset": message, "undone": not dry_run}, f"Message {message} is delivered as it was read.", json)
            return
        made = _document(document) if document is not None else _changed(operator.original(message, sink), set_ or [], unset or [])
        operator.edit(message, made, why=because(why), sink=sink, dry_run=dry_run)
    from headwater.pipeline import values

    text = values.encode(made).decode()
    said = {"offset": message, "data": made, "sink": sink or None, "dry_run": dry_run}
    _said(said, f"Message {message} {'would be' if dry_run else 'is'} delivered as {text}", json)


def _document(path: Path) -> dict[str, Any]:
    from headwater.pipeline import values

    try:
        text = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.", hint="Name a file with the document as JSON.") from error
    return values.decode(text.strip())


def _changed(document: dict[str, Any], changes: list[str], gone: list[str]) -> dict[str, Any]:
    from headwater.pipeline import values
    from headwater.pipeline.transforms.paths import parsed, placed, without

    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path:
            raise BadInput(f"{change!r} sets nothing.", hint="Write PATH=JSON, as in --set price=12.5 or --set 'name=\"Ann\"'.")
        try:
            value = values.decode_any(text)
        except BadInput:
            raise BadInput(f"{text!r} is no JSON.", hint=f"Text stands in quotes: --set '{path}=\"{text}\"'.") from None
        document = placed(document, [(parsed(path, "--set"), value)])
    return without(document, tuple(parsed(path, "--unset") for path in gone))


def compact(name: Name, dry_run: DryRun = False, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Keep, below what every sink has taken, only the last message of each namespace; and only the newest positions."""
    with operating(name, data, config, changes=not dry_run) as (operator, _):
        done = operator.compact(dry_run=dry_run)
    if dry_run:
        _said(msgspec.to_builtins(done), f"Closed segments below {done.before} would be compacted.", json)
        return
    text = f"Below {done.before}: {count(done.records_before)} messages became {count(done.records_after)}."
    _said(msgspec.to_builtins(done), text, json)


def _said(value: dict[str, Any], text: str, json: bool) -> None:
    print_json(value) if json else typer.echo(text)
