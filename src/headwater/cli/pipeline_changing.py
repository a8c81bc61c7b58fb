"""`headwater pipeline stop | offset | ack | edit | compact | remove`: audited changes of the offset log, also beside a live run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import Column, agreed, count, print_json, print_table, visible
from headwater.cli.pipeline_looking import PLACES, place_row
from headwater.cli.pipeline_options import Name, Offset, OffsetIfAny, Reason, SinkIfAny, SinkName, Why, no_more, opened
from headwater.cli.usage import UsageMistake
from headwater.core.errors import BadInput

if TYPE_CHECKING:
    from headwater.client.blocking import BlockingOnePipeline
    from headwater.pipeline.operating.answers import Edited


@command("dry_run")
def stop(name: Name, at: At, why: Why = "") -> None:
    """Ask a live run to finish what it has begun, and stop."""
    with opened(at, name, changes=True) as pipeline:
        stopping = pipeline.stop(why=why, dry_run=at.dry_run)
        file = pipeline.status().file
    at.answered(stopping, f"{name} {_would_be(at)} asked to stop.")
    if stopping.silent_since is not None:
        at.note(f"It has given no sign of life since {stopping.silent_since}. If its machine is lost, a new run shuts it out:")
        at.note(f"  headwater pipeline run {file or 'FILE'}")


@command("dry_run", example='headwater pipeline offset shop mark report 12 --why "the table was restored"')
def offset(
    name: Name,
    verb: Annotated[
        Literal["list", "show", "mark", "delete"],
        typer.Argument(metavar="list|show|mark|delete", help="What to do.", show_default=False),
    ],
    at: At,
    sink: SinkIfAny = None,
    position: OffsetIfAny = None,
    why: Reason = "",
) -> None:
    """Show and change positions: of all sinks, or of one by namespace; move one, or forget a removed sink.

    `mark SINK N` makes N the last message that counts as taken: forward skips what lies between, back sends it again, -1 is the beginning.
    """
    with opened(at, name, changes=verb in ("mark", "delete")) as pipeline:
        if verb == "list":
            no_more("offset list", sink, position)
            positions = pipeline.offsets()
            print_json(positions) if at.json else print_table(PLACES, [place_row(place) for place in positions])
        elif sink is None:
            raise UsageMistake("Which sink?", hint=f"List them with `headwater pipeline offset {name} list`.")
        elif verb == "mark":
            _mark(pipeline, at, name, sink, position, why)
        else:
            no_more(f"offset {verb}", position)
            _show(pipeline, at, sink) if verb == "show" else _delete(pipeline, at, sink, why)


def _show(pipeline: BlockingOnePipeline, at: At, sink: str) -> None:
    place = pipeline.offset(sink)
    if at.json:
        print_json(place)
        return
    print_table([Column("namespace"), Column("offset", True)], [(key, str(last)) for key, last in sorted(place.namespaces.items())])
    if place.taken:
        at.note(f"Beyond its position {place.position} it has {', '.join(f'{start}..{end - 1}' for start, end in place.taken)}.")


def _mark(pipeline: BlockingOnePipeline, at: At, name: str, sink: str, position: int | None, why: str) -> None:
    if position is None:
        raise UsageMistake("Which offset?", hint=f"As in `headwater pipeline offset {name} mark {sink} 12 --why ...`.")
    moved = pipeline.mark(sink, position, why=why, dry_run=at.dry_run)
    at.answered(moved, f"{sink} {_would_be(at)} at {moved.position}; it was at {moved.before}.")


def _delete(pipeline: BlockingOnePipeline, at: At, sink: str, why: str) -> None:
    at.answered(pipeline.delete(sink, why=why, dry_run=at.dry_run), f"{sink} {_would_be(at)} forgotten.")


@command("dry_run", example='headwater pipeline ack shop report 14 --why "a test order"')
def ack(name: Name, sink: SinkName, message: Offset, at: At, why: Reason = "") -> None:
    """Count a message as taken by a sink without sending it."""
    with opened(at, name, changes=True) as pipeline:
        acked = pipeline.ack(sink, message, why=why, dry_run=at.dry_run)
    at.answered(acked, f"Message {message} {'would count' if at.dry_run else 'counts'} as taken by {sink}, which is at {acked.position}.")


@command("dry_run", example='headwater pipeline edit shop 14 --set price=0.85 --set \'name="Ann"\' --why "left out"')
def edit(
    name: Name,
    message: Offset,
    at: At,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=JSON", help="Give a field this value, as in price=0.85; may be repeated.")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="PATH", help="Take a field away; may be repeated.")] = None,
    document: Annotated[Path | None, typer.Option("--doc", metavar="FILE", help="The whole document as JSON; - is standard input.")] = None,
    sink: Annotated[str, typer.Option("--sink", metavar="SINK", help="For this sink only.", autocompletion=completion.sinks)] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Deliver the original again.")] = False,
    why: Reason = "",
) -> None:
    """Correct a message: the pipeline delivers the corrected copy in its place. The original stays in the log."""
    if sum((bool(set_ or unset), document is not None, undo)) != 1:
        raise UsageMistake("What is to be corrected?", hint="Give --set PATH=JSON (or --unset PATH), or --doc FILE, or --undo.")
    with opened(at, name, changes=True) as pipeline:
        if undo:
            undone = pipeline.undo(message, why=why, sink=sink or None, dry_run=at.dry_run)
            at.answered(undone, f"Message {message} {_would_be(at)} delivered as it was read.")
            return
        whole = _document(document) if document is not None else None
        made = pipeline.edit(message, whole, set=_given(set_ or []), unset=unset or [], sink=sink or None, why=why, dry_run=at.dry_run)
        live = pipeline.status().state.startswith("running")
    from headwater.pipeline.operating.message_view import text_of

    at.answered(made, f"Message {message} {_would_be(at)} delivered as {visible(text_of(made.data))}")
    if not at.dry_run:
        _next(made, at, name, live)


def _next(made: Edited, at: At, name: str, live: bool) -> None:
    """The next commands after a correction, for each sink that needs one."""
    for sink in made.standing:
        at.note(f"{sink} goes on by itself." if live else f"Send it to {sink}: {at.command(f'pipeline step {name} {sink}')}")
    for sink in made.dead:
        at.note(f"{sink} has put it aside: {at.command(f'pipeline dead {name} retry {made.offset} --sink {sink}')}")
    for sink in made.taken:
        at.note(f"{sink} has taken it as it was: {at.command(f'pipeline replay {name} {sink} {made.offset}')}")


def _document(path: Path) -> dict[str, Any]:
    from headwater.pipeline import values

    try:
        text = (sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()).strip()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.", hint="Name a file with the document as JSON.") from error
    where = "Standard input" if str(path) == "-" else str(path)
    if not text:
        raise BadInput(f"{where} is empty.", hint='Give the whole document as one JSON object: {"_id": 14, ...}.')
    try:
        return values.decode(text)
    except BadInput as error:
        reason = error.message.partition(": ")[2].rstrip(".")
        raise BadInput(
            f"{where} holds no JSON object: {reason or error.message}.", hint='Give the whole document: {"_id": 14, ...}.'
        ) from error


def _given(changes: list[str]) -> dict[str, Any]:
    from headwater.pipeline import values

    values_by_path: dict[str, Any] = {}
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path:
            raise UsageMistake(f"{change!r} sets nothing.", hint="Write PATH=JSON, as in --set price=12.5 or --set 'name=\"Ann\"'.")
        try:
            values_by_path[path] = values.decode_any(text)
        except BadInput:
            raise UsageMistake(f"{text!r} is no JSON.", hint=f"Text stands in quotes: --set '{path}=\"{text}\"'.") from None
    return values_by_path


@command("dry_run")
def compact(name: Name, at: At) -> None:
    """Keep, below the least position of all sinks, only the last message of each namespace; and only the newest positions."""
    with opened(at, name, changes=True) as pipeline:
        done = pipeline.compact(dry_run=at.dry_run)
    if at.dry_run:
        text = f"{'The log' if done.truncates else 'Closed segments'} below {done.before} would be compacted."
    elif done.truncates:
        text = f"What lies below {done.before} and the last message of each namespace is let go."
    elif done.records_before == done.records_after:
        text = f"Nothing to compact: no closed segment below {done.before} has messages to spare."
    else:
        text = f"Below {done.before}: {count(done.records_before)} messages became {count(done.records_after)}."
    at.answered(done, text)


@command("yes", "dry_run")
def remove(name: Name, at: At) -> None:
    """Delete a pipeline that does not run, with its messages, positions and audit, for good. Sinks keep what they have."""
    with opened(at, name, changes=True) as pipeline:
        done = pipeline.remove(dry_run=True)
        if not at.dry_run:
            if not agreed(f"Delete pipeline {name} with {count(done.messages)} messages for good?", yes=at.yes):
                return
            done = pipeline.remove()
    at.answered(
        done, f"Pipeline {name} {_would_be(at)} deleted: {count(done.messages)} messages, and the topics {' and '.join(done.topics)}."
    )


def _would_be(at: At) -> str:
    return "would be" if at.dry_run else "is"
