"""`headwater pipeline step | replay | dead | verify`: commands that run the pipeline's file, because they send to or read from a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import Column, count, print_json, print_table, visible
from headwater.cli.pipeline_looking import when
from headwater.cli.pipeline_options import Name, OffsetIfAny, SinkName, Why, no_more, opened, sending, several
from headwater.cli.usage import UsageMistake
from headwater.core.errors import Differs
from headwater.wire.ranges import read_closed_range

if TYPE_CHECKING:
    from headwater.pipeline.operating.answers import BuriedMessage


@command("file", "dry_run", example="headwater pipeline step shop report --count 5")
def step(
    name: Name,
    sink: SinkName,
    at: At,
    number: Annotated[int, typer.Option("--count", metavar="N", min=1, help="So many messages, one after the other.")] = 1,
    why: Why = "",
) -> None:
    """Deliver the next message to a sink and wait until it has taken it."""
    with sending(at, name) as pipeline:
        said = pipeline.step(sink, number, why=why, dry_run=at.dry_run)
    if said.offsets:
        text = "\n".join(f"{sink} has taken message {offset}." for offset in said.offsets)
    else:
        text = f"{sink} has everything." if said.next is None else f"Message {said.next} would be delivered to {sink}."
    at.answered(said, text)


@command("file", "dry_run", example='headwater pipeline replay shop report 3..14 --why "lost"')
def replay(
    name: Name,
    sink: SinkName,
    messages: Annotated[str, typer.Argument(metavar="X[..Y]", help="The messages, both ends included.", show_default=False)],
    at: At,
    why: Why = "",
) -> None:
    """Send messages to a sink again. Its position does not move."""
    first, last = read_closed_range(messages)
    with sending(at, name) as pipeline:
        said = pipeline.replay(sink, first, last, why=why, dry_run=at.dry_run)
    would = "would be sent again" if at.dry_run else f"were sent again: {count(said.written)} written"
    at.answered(said, f"Messages {first}..{last} {would}.")
    if said.newer is not None:
        come = "would come" if at.dry_run else "have come"
        at.note(f"They {come} over message {said.newer}, a newer one of the same document. To send that and all between as well:")
        at.note(f"  {at.command(f'pipeline replay {name} {sink} {first}..{said.newer}')}")


@command("file", "dry_run", example='headwater pipeline dead shop retry 14 --why "mended"')
def dead(
    name: Name,
    verb: Annotated[
        Literal["list", "show", "retry", "drop"],
        typer.Argument(metavar="list|show|retry|drop", help="What to do.", show_default=False),
    ],
    at: At,
    message: OffsetIfAny = None,
    sink: Annotated[str | None, typer.Option("--sink", metavar="SINK", help="Of this sink.", autocompletion=completion.sinks)] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit. `drop` needs one.")] = "",
    force: Annotated[bool, typer.Option("--force", help="`retry` although the sink has a newer message of the same document.")] = False,
) -> None:
    """Handle messages that a sink has put aside: list them, show one, send it again, or drop it."""
    if verb == "list":
        no_more("dead list", message)
        _list(name, sink, at)
        return
    if message is None:
        raise UsageMistake("Which message?", hint=f"List them with `headwater pipeline dead {name} list`.")
    if verb == "show":
        with opened(at, name) as pipeline:
            one = pipeline.dead_one(message, sink)
        print_json(one) if at.json else _print_dead(name, one, at)
        return
    if verb == "drop":
        with opened(at, name, changes=True) as pipeline:
            said = pipeline.drop(message, sink=sink, why=why, dry_run=at.dry_run)
        done = "would be let go" if at.dry_run else "is let go"
    else:
        with sending(at, name) as pipeline:
            said = pipeline.retry(message, sink=sink, why=why, force=force, dry_run=at.dry_run)
        done = "would be sent again" if at.dry_run else "is taken"
    at.answered(said, f"Message {message} {done} ({said.sink}).")


def _list(name: str, sink: str | None, at: At) -> None:
    with opened(at, name) as pipeline:
        found = pipeline.dead(sink)
    if at.json:
        print_json(found)
    elif found:
        rows = [(one.sink, str(one.offset), when(one.at), one.message.partition("\n")[0]) for one in found]
        print_table([Column("sink"), Column("offset", True), Column("when"), Column("error")], rows)
        at.note(f"See one with its message: {at.command(f'pipeline dead {name} show {found[0].offset}')}")
    else:
        at.note("Nothing is put aside.")


def _print_dead(name: str, one: BuriedMessage, at: At) -> None:
    from headwater.pipeline.operating.message_view import text_of

    typer.echo(f"message {one.offset} for {one.sink}, put aside {when(one.at)} after {_tries(one.tries)}")
    typer.echo(f"  {one.error}: {visible(one.message)}")
    if one.record is None:
        typer.echo("  The message itself is no longer in the log.")
    else:
        typer.echo(f"  {visible(one.record.namespace)} {one.record.op} {visible(text_of(one.record.data))}")
        for copy in one.record.copies:
            if copy.sink in (None, one.sink):
                typer.echo(f"  delivered from now on as {visible(text_of(copy.data))}")
    for line in one.trace.splitlines():
        typer.echo(f"  {visible(line)}")
    at.note(f"Correct it:    {at.command(f'pipeline edit {name} {one.offset} --set FIELD=JSON --why ...')}")
    at.note(f"Send it again: {at.command(f'pipeline dead {name} retry {one.offset} --sink {one.sink}')}")
    at.note(f"Let it go:     {at.command(f'pipeline dead {name} drop {one.offset} --sink {one.sink} --why ...')}")


def _tries(number: int) -> str:
    return "one try" if number == 1 else f"{number} tries"


@command("file")
def verify(name: Name, sink: SinkName, at: At) -> None:
    """Compare what a sink holds with what the log says that it should hold."""
    with sending(at, name, changes=False) as pipeline:
        found = pipeline.verify(sink)
        if at.json:
            print_json(found)
        else:
            expected = several(found.expected, "document")
            typer.echo(f"{sink} up to {found.position}: {expected} expected, {count(found.found)} found.")
        if not found.equal:
            raise Differs(
                f"{sink} differs from the log: {several(found.missing, 'document', 'is')} missing, "
                f"{count(found.extra)} should not be there. The first: {found.first}",
                hint=f"Send what is missing again with `headwater pipeline replay {name} {sink} X..Y --why ...`; "
                f"a folder of files is written anew after `headwater pipeline offset {name} mark {sink} -1 --why ...`.",
            )
    if not at.json:
        typer.echo("verify: equal")
