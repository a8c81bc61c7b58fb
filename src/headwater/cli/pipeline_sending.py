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
    from headwater.pipeline.operating.answers import BuriedMessage, Verified


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
        answer = pipeline.step(sink, number, why=why, dry_run=at.dry_run)
    if answer.offsets:
        text = "\n".join(f"{sink} has taken message {offset}." for offset in answer.offsets)
    else:
        text = f"{sink} has everything." if answer.next is None else f"Message {answer.next} would be delivered to {sink}."
    at.answered(answer, text)


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
        answer = pipeline.replay(sink, first, last, why=why, dry_run=at.dry_run)
    would = "would be sent again" if at.dry_run else f"were sent again: {count(answer.written)} written"
    at.answered(answer, f"Messages {first}..{last} {would}.")
    if answer.newer is not None:
        come = "would come" if at.dry_run else "have come"
        at.note(f"They {come} over message {answer.newer}, a newer one of the same document. To send that and all between as well:")
        at.note(f"  {at.command(f'pipeline replay {name} {sink} {first}..{answer.newer}')}")


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
            buried = pipeline.dead_one(message, sink)
        print_json(buried) if at.json else _print_dead(name, buried, at)
        return
    if verb == "drop":
        with opened(at, name, changes=True) as pipeline:
            answer = pipeline.drop(message, sink=sink, why=why, dry_run=at.dry_run)
        done = "would be let go" if at.dry_run else "is let go"
    else:
        with sending(at, name) as pipeline:
            answer = pipeline.retry(message, sink=sink, why=why, force=force, dry_run=at.dry_run)
        done = "would be sent again" if at.dry_run else "is taken"
    at.answered(answer, f"Message {message} {done} ({answer.sink}).")


def _list(name: str, sink: str | None, at: At) -> None:
    with opened(at, name) as pipeline:
        messages = pipeline.dead(sink)
    if at.json:
        print_json(messages)
    elif messages:
        rows = [(message.sink, str(message.offset), when(message.at), message.message.partition("\n")[0]) for message in messages]
        print_table([Column("sink"), Column("offset", True), Column("when"), Column("error")], rows)
        at.note(f"See one with its message: {at.command(f'pipeline dead {name} show {messages[0].offset}')}")
    else:
        at.note("Nothing is put aside.")


def _print_dead(name: str, buried: BuriedMessage, at: At) -> None:
    from headwater.pipeline.operating.message_view import text_of

    typer.echo(f"message {buried.offset} for {buried.sink}, put aside {when(buried.at)} after {_tries(buried.tries)}")
    typer.echo(f"  {buried.error}: {visible(buried.message)}")
    if buried.record is None:
        typer.echo("  The message itself is no longer in the log.")
    else:
        typer.echo(f"  {visible(buried.record.namespace)} {buried.record.op} {visible(text_of(buried.record.data))}")
        for copy in buried.record.copies:
            if copy.sink in (None, buried.sink):
                typer.echo(f"  delivered from now on as {visible(text_of(copy.data))}")
    for line in buried.trace.splitlines():
        typer.echo(f"  {visible(line)}")
    at.note(f"Correct it:    {at.command(f'pipeline edit {name} {buried.offset} --set FIELD=JSON --why ...')}")
    at.note(f"Send it again: {at.command(f'pipeline dead {name} retry {buried.offset} --sink {buried.sink}')}")
    at.note(f"Let it go:     {at.command(f'pipeline dead {name} drop {buried.offset} --sink {buried.sink} --why ...')}")


def _tries(number: int) -> str:
    return "one try" if number == 1 else f"{number} tries"


def _mending(name: str, verified: Verified) -> str:
    """What to do about a sink that differs: a replay writes what is missing, and removes nothing."""
    sink, lines = verified.sink, list[str]()
    anew = f"`headwater pipeline offset {name} mark {sink} {verified.since - 1} --why ...`"
    if verified.missing:
        lines.append(f"Send what is missing again with `headwater pipeline replay {name} {sink} X..Y --why ...`.")
    if verified.surplus:
        if verified.passed:
            lines.append(
                f"{count(verified.passed)} of those that should not be there are what messages say that were skipped, or passed by a"
            )
            lines.append("`mark`. If the sink had taken these messages before, the documents are right: leave them.")
        if verified.passed < verified.extra:
            lines.append("These should not be there; delete them at the sink, where that is right:")
            lines += [f"  {visible(text)}" for text in verified.surplus]
            if (more := verified.extra - verified.passed - len(verified.surplus)) > 0:
                lines.append(f"  and {several(more, 'other')}")
    return "\n  ".join([*lines, f"Or empty the table, and deliver anew with {anew}; a folder of files is written anew by that."])


@command("file")
def verify(name: Name, sink: SinkName, at: At) -> None:
    """Compare what a sink holds with what the log says that it should hold."""
    with sending(at, name, changes=False) as pipeline:
        verified = pipeline.verify(sink)
        if at.json:
            print_json(verified)
        else:
            expected = several(verified.expected, "document")
            typer.echo(f"{sink} up to {verified.position}: {expected} expected, {count(verified.found)} found.")
        if not verified.equal:
            raise Differs(
                f"{sink} differs from the log: {several(verified.missing, 'document', 'is')} missing, "
                f"{count(verified.extra)} should not be there. The first: {verified.first}",
                hint=_mending(name, verified),
            )
    if not at.json:
        typer.echo("verify: equal")
