"""`headwater pipeline step | replay | dead | verify`: what needs the pipeline's file, because it sends to or reads from a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.options import ConfigFile, DataDir, DryRun, Json
from headwater.cli.output import Column, count, print_json, print_table
from headwater.cli.pipeline_options import DefinedIn, Name, SinkName, Why, operating, sending, span
from headwater.core.errors import BadInput

if TYPE_CHECKING:
    from headwater.pipeline.operating.answers import BuriedMessage


def step(
    name: Name,
    sink: SinkName,
    number: Annotated[int, typer.Option("--count", metavar="N", min=1, help="So many messages, one after the other.")] = 1,
    why: Why = "",
    file: DefinedIn = None,
    dry_run: DryRun = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Deliver the next message to a sink and wait until it has taken it."""
    with sending(name, data, config, file, changes=not dry_run) as desk:
        said = desk.step(
            sink, number, why=why, dry_run=dry_run, told=None if json else lambda at: typer.echo(f"{sink} has taken message {at}.")
        )
    if json:
        print_json(said)
    elif dry_run:
        typer.echo(f"Message {said.position + 1} would be delivered to {sink}.")
    elif not said.taken:
        typer.echo(f"{sink} has everything.")


def replay(
    name: Name,
    sink: SinkName,
    messages: Annotated[str, typer.Argument(metavar="X..Y", help="The messages, both included.", show_default=False)],
    why: Why = "",
    file: DefinedIn = None,
    dry_run: DryRun = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Send messages to a sink again. Its position does not move."""
    first, last = span(messages)
    with sending(name, data, config, file, changes=not dry_run) as desk:
        said = desk.replay(sink, first, last, why=why, dry_run=dry_run)
    if json:
        print_json(said)
    else:
        would = "would be sent again" if dry_run else f"were sent again: {count(said.written)} written"
        typer.echo(f"Messages {first}..{last} {would}.")


def dead(
    name: Name,
    verb: Annotated[str, typer.Argument(metavar="list|show|retry|drop", help="What to do.", show_default=False)],
    message: Annotated[int | None, typer.Argument(metavar="[N]", min=0, help="The message's offset.", show_default=False)] = None,
    sink: Annotated[str | None, typer.Option("--sink", metavar="SINK", help="Of this sink.")] = None,
    why: Why = "",
    file: DefinedIn = None,
    dry_run: DryRun = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """See to messages that were put aside: list them, look at one, send it again, or let it go."""
    if verb not in ("list", "show", "retry", "drop"):
        raise BadInput(f"dead knows no {verb}.", hint="Use list, show, retry or drop.")
    if verb == "list":
        with operating(name, data, config) as desk:
            found = desk.dead(sink)
        if json:
            print_json(found)
        else:
            rows = [(one.sink, str(one.offset), one.at or "-", one.error, one.message.splitlines()[0][:100]) for one in found]
            print_table([Column("sink"), Column("offset", True), Column("when"), Column("error"), Column("message")], rows)
        return
    if message is None:
        raise BadInput("Which message?", hint=f"List them with `headwater pipeline dead {name} list`.")
    if verb == "show":
        with operating(name, data, config) as desk:
            one = desk.dead_one(message, sink)
        print_json(one) if json else _print_dead(one)
        return
    if verb == "drop":
        with operating(name, data, config, changes=not dry_run) as desk:
            said = desk.drop(message, sink=sink, why=why, dry_run=dry_run)
    else:
        with sending(name, data, config, file, changes=not dry_run) as desk:
            said = desk.retry(message, sink=sink, why=why, dry_run=dry_run)
    if json:
        print_json(said)
    else:
        typer.echo(f"Message {message} {'would be' if dry_run else 'is'} {said.done} ({said.sink}).")


def _print_dead(one: BuriedMessage) -> None:
    from headwater.cli.output import visible
    from headwater.pipeline import values

    typer.echo(f"message {one.offset} for {one.sink}, put aside {one.at or '-'} after {one.tries} tries")
    typer.echo(f"  {one.error}: {visible(one.message)}")
    if one.record is not None:
        data = one.record.data
        text = data if isinstance(data, str) else values.encode(data).decode()
        typer.echo(f"  {visible(one.record.namespace)} {one.record.op} {visible(text)}")
    for line in one.trace.splitlines():
        typer.echo(f"  {line}")


def verify(name: Name, sink: SinkName, file: DefinedIn = None, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Compare what a sink holds with what the log says that it should hold."""
    from headwater.core.errors import Differs

    with sending(name, data, config, file, changes=False) as desk:
        found = desk.verify(sink)
    if json:
        print_json(found)
    else:
        typer.echo(f"{sink} up to {found.position}: {count(found.expected)} documents expected, {count(found.found)} found.")
    if not found.equal:
        raise Differs(
            f"{sink} differs from the log: {count(found.missing)} documents are missing, {count(found.extra)} should not be there. "
            f"The first: {found.first}",
            hint=f"Send what is missing again with `headwater pipeline replay {name} {sink} X..Y`; "
            f"a folder of files is written anew after `headwater pipeline offset {name} mark {sink} -1 --why ...`.",
        )
    if not json:
        typer.echo("verify: equal")
