"""`headwater pipeline list | status | xlog | audit`: looking, which creates and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.log_opening import opened
from headwater.cli.options import ConfigFile, DataDir, Json
from headwater.cli.output import Column, count, print_json, print_json_line, print_table
from headwater.cli.pipeline_options import Name, operating, span
from headwater.core.errors import BadInput

if TYPE_CHECKING:
    from headwater.pipeline.operating.answers import Place, Seen


def list_pipelines(data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """List the pipelines that have run on this log."""
    from headwater.pipeline.operating.desk import everything

    with opened(data, config) as (log, _):
        found = everything(log)
    if json:
        print_json(found)
    elif found:
        columns = [
            Column("pipeline"),
            Column("state"),
            Column("messages", True),
            Column("sinks", True),
            Column("lag", True),
            Column("last run"),
        ]
        rows = [(o.pipeline, o.state, count(o.end), str(len(o.sinks)), count(o.lag), o.began or "-") for o in found]
        print_table(columns, rows)
    else:
        typer.echo("No pipeline has run here. `headwater pipeline init SRC SINK` writes one to begin with.", err=True)


def status(name: Name, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Show a pipeline: its run, its source, and where every sink is."""
    with operating(name, data, config) as desk:
        found = desk.status()
    if json:
        print_json(found)
        return
    began = f"; began {found.began} as {found.process}" if found.began else ""
    typer.echo(f"{name}: {found.state}{began}; source in phase {found.phase or '-'}")
    print_table(PLACES, [place_row(one) for one in found.sinks])
    if found.dead:
        typer.echo(f"{found.dead} messages are put aside: headwater pipeline dead {name} list")
    if found.edits:
        typer.echo(f"{found.edits} messages have a corrected copy: headwater pipeline audit {name}")


PLACES = [Column("sink"), Column("position", True), Column("end", True), Column("lag", True), Column("state"), Column("error")]


def place_row(one: Place) -> tuple[str, ...]:
    error = "-" if one.error is None else f"{one.error.offset}: {one.error.message.partition(chr(10))[0]}"
    return (one.sink, str(one.position), str(one.end), count(one.lag), one.state, error)


def xlog(
    name: Name,
    verb: Annotated[str, typer.Argument(metavar="oldest|current|show", help="What to look at.", show_default=False)],
    messages: Annotated[str | None, typer.Argument(metavar="[X[..Y]]", help="Which messages to show.", show_default=False)] = None,
    namespace: Annotated[str, typer.Option("--namespace", metavar="RE", help="Only namespaces that this expression finds.")] = ".*",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = 1000,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Look into a pipeline's log: the oldest offset, the newest, or messages."""
    with operating(name, data, config) as desk:
        match verb:
            case "oldest" | "current":
                bounds = desk.operator.bounds()
                value = bounds.start if verb == "oldest" else bounds.end - 1
                print_json({verb: value}) if json else typer.echo(str(value))
            case "show":
                if messages is None:
                    raise BadInput("Which messages?", hint=f"As in `headwater pipeline xlog {name} show 0..9`.")
                first, last = span(messages)
                for one in desk.every(first, last, namespace=namespace, limit=limit):
                    print_json_line(one) if json else _print_message(one)
            case _:
                raise BadInput(f"xlog knows no {verb}.", hint="Use oldest, current or show.")


def _print_message(one: Seen) -> None:
    from headwater.cli.output import visible
    from headwater.pipeline import values

    text = one.data if isinstance(one.data, str) else values.encode(one.data).decode()
    marks = " edited" if one.edited else ""
    typer.echo(f"{one.offset}  {one.timestamp or '-'}  {one.mode} {one.op}  {visible(one.namespace)}{marks}  {visible(text)}")
    if one.unreadable:
        typer.echo(f"    unreadable: {visible(one.unreadable)}")
    for no in one.refused:
        typer.echo(f"    {no.sink} stands here: {visible(no.message)}")


def audit(name: Name, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Show what operators have done to a pipeline: when, who, what, and why."""
    with operating(name, data, config) as desk:
        entries = desk.audit()
    if json:
        print_json(entries)
        return
    rows = [(one.at or "-", one.who, one.what, " ".join(f"{k}={v}" for k, v in one.details.items()), one.why) for one in entries]
    print_table([Column("when"), Column("who"), Column("what"), Column("details"), Column("why")], rows)
