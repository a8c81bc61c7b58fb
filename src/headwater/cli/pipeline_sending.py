"""`headwater pipeline step | replay | dead | verify`: what needs the pipeline's file, because it sends to or reads from a sink."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from headwater.cli.options import ConfigFile, DataDir, DryRun, Json
from headwater.cli.output import Column, count, print_json, print_table
from headwater.cli.pipeline_looking import moment
from headwater.cli.pipeline_options import DefinedIn, Name, SinkName, Why, because, defined, operating, span
from headwater.core.errors import BadInput


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
    from headwater.pipeline.hands import Hands

    with operating(name, data, config, changes=not dry_run) as (operator, settings):
        hands = Hands(operator, defined(operator, file), sink, settings)
        first = operator.sink(sink).position + 1
        if dry_run:
            taken, after = 0, first - 1
        else:
            taken = hands.step(number, why=why, told=None if json else lambda at: typer.echo(f"{sink} has taken message {at}."))
            after = operator.sink(sink).position
    if json:
        print_json({"sink": sink, "taken": taken, "position": after, "dry_run": dry_run})
    elif dry_run:
        typer.echo(f"Message {first} would be delivered to {sink}.")
    elif not taken:
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
    from headwater.pipeline.hands import Hands

    first, last = span(messages)
    with operating(name, data, config, changes=not dry_run) as (operator, settings):
        outcome = Hands(operator, defined(operator, file), sink, settings).replay(first, last, why=why, dry_run=dry_run)
    written = outcome.written if outcome is not None else 0
    if json:
        print_json({"sink": sink, "first": first, "last": last, "written": written, "dry_run": dry_run})
    else:
        would = "would be sent again" if dry_run else f"were sent again: {count(written)} written"
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
    from headwater.pipeline.hands import Hands

    if verb not in ("list", "show", "retry", "drop"):
        raise BadInput(f"dead knows no {verb}.", hint="Use list, show, retry or drop.")
    with operating(name, data, config, changes=verb in ("retry", "drop") and not dry_run) as (operator, settings):
        if verb == "list":
            found = operator.dead(sink)
            if json:
                print_json([msgspec.to_builtins(one) for one in found])
            else:
                rows = [(one.sink, str(one.offset), moment(one.at), one.error, one.message.partition("\n")[0]) for one in found]
                print_table([Column("sink"), Column("offset", True), Column("when"), Column("error"), Column("message")], rows)
            return
        if message is None:
            raise BadInput("Which message?", hint=f"List them with `headwater pipeline dead {name} list`.")
        one = operator.dead_one(message, sink)
        if verb == "show":
            shown = next(iter(operator.show(message)), None)
            _print_dead(msgspec.to_builtins(one), msgspec.to_builtins(shown) if shown is not None else None, json)
            return
        if verb == "drop":
            operator.drop(message, why=because(why), sink=sink, dry_run=dry_run)
        elif not dry_run:
            Hands(operator, defined(operator, file), one.sink, settings).retry(one, why=why)
    done = {"drop": "let go", "retry": "taken"}[verb]
    if json:
        print_json({"sink": one.sink, "offset": message, "done": done, "dry_run": dry_run})
    else:
        typer.echo(f"Message {message} {'would be' if dry_run else 'is'} {done} ({one.sink}).")


def _print_dead(one: dict[str, Any], message: dict[str, Any] | None, json: bool) -> None:
    if json:
        print_json({**one, "record": message})
        return
    from headwater.pipeline import values

    typer.echo(f"message {one['offset']} for {one['sink']}, put aside {moment(one['at'])} after {one['tries']} tries")
    typer.echo(f"  {one['error']}: {one['message']}")
    if message is not None:
        typer.echo(f"  {message['namespace']} {message['op']} {values.encode(message['data']).decode()}")
    for line in one["trace"].splitlines():
        typer.echo(f"  {line}")


def verify(name: Name, sink: SinkName, file: DefinedIn = None, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Compare what a sink holds with what the log says that it should hold."""
    from headwater.core.errors import Differs
    from headwater.pipeline.verification import verify as compare

    with operating(name, data, config) as (operator, _):
        found = compare(operator, defined(operator, file), sink)
    if json:
        print_json(msgspec.to_builtins(found))
    else:
        typer.echo(f"{sink} up to {found.position}: {count(found.expected)} documents expected, {count(found.found)} found.")
    if not found.equal:
        raise Differs(
            f"{sink} differs from the log: {count(found.missing)} documents are missing, {count(found.extra)} should not be there. "
            f"The first: {found.first}",
            hint=f"Send what is missing again with `headwater pipeline replay {name} {sink} X..Y`.",
        )
    if not json:
        typer.echo("verify: equal")
