"""`headwater pipeline list | status | xlog | audit`: looking, which creates and changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from headwater.cli.log_opening import opened
from headwater.cli.options import ConfigFile, DataDir, Json
from headwater.cli.output import Column, count, print_json, print_json_line, print_table
from headwater.cli.pipeline_options import Name, operating, span
from headwater.core.errors import BadInput


def moment(ms: int) -> str:
    """Milliseconds since 1970 as people read them."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if ms else "-"


def list_pipelines(data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """List the pipelines that have run on this log."""
    from headwater.pipeline.operator import Operator, pipelines

    with opened(data, config) as (log, _):
        found = [_summary(Operator(log, name)) for name in pipelines(log)]
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
        rows = [(o["pipeline"], o["state"], count(o["end"]), str(len(o["sinks"])), count(o["lag"]), o["began"]) for o in found]
        print_table(columns, rows)
    else:
        typer.echo("No pipeline has run here. `headwater pipeline init SRC SINK` writes one to begin with.", err=True)


def _summary(operator: Any) -> dict[str, Any]:
    state, sinks = operator.state(), operator.sinks()
    return {
        "pipeline": operator.pipeline,
        "state": _state(state, sinks),
        "end": operator.bounds().end,
        "lag": max((one.lag for one in sinks), default=0),
        "sinks": [msgspec.to_builtins(one) for one in sinks],
        "began": moment(state.run.began) if state.run is not None else "-",
        "process": state.run.process if state.run is not None else "",
        "file": state.run.file if state.run is not None else "",
        "phase": _phase(state.reader),
        "dead": len(state.dead),
        "edits": len(state.edits),
    }


def _phase(reader: Any) -> str:
    if reader is None:
        return "-"
    if not reader.copied:
        return "copy"
    return "complete" if reader.cursor is None else "sync"


def _state(state: Any, sinks: Any) -> str:
    if state.run is None:
        return "new"
    stopped = [one.sink for one in sinks if one.state == "stopped"]
    if state.run.state == "running":
        return f"running, {', '.join(stopped)} stopped" if stopped else "running"
    return f"stopped at {', '.join(stopped)}" if stopped else state.run.state


def status(name: Name, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Show a pipeline: its run, its source, and where every sink is."""
    with operating(name, data, config) as (operator, _):
        found = _summary(operator)
    if json:
        print_json(found)
        return
    typer.echo(f"{name}: {found['state']}; began {found['began']} as {found['process']}; source in phase {found['phase']}")
    columns = [Column("sink"), Column("position", True), Column("end", True), Column("lag", True), Column("state"), Column("error")]
    print_table(columns, [where_row(one) for one in found["sinks"]])
    if found["dead"]:
        typer.echo(f"{found['dead']} messages are put aside: headwater pipeline dead {name} list")
    if found["edits"]:
        typer.echo(f"{found['edits']} messages have a corrected copy: headwater pipeline audit {name}")


def where_row(one: dict[str, Any]) -> tuple[str, ...]:
    error = "-" if one["error"] is None else f"{one['error']['offset']}: {one['error']['message'].splitlines()[0]}"
    return (one["sink"], str(one["position"]), str(one["end"]), count(one["lag"]), one["state"], error)


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
    with operating(name, data, config) as (operator, _):
        bounds = operator.bounds()
        match verb:
            case "oldest" | "current":
                value = bounds.start if verb == "oldest" else bounds.end - 1
                print_json({verb: value}) if json else typer.echo(str(value))
            case "show":
                if messages is None:
                    raise BadInput("Which messages?", hint=f"As in `headwater pipeline xlog {name} show 0..9`.")
                first, last = span(messages)
                for one in operator.show(first, last, namespace=namespace, limit=limit):
                    print_json_line(one) if json else _print_message(one)
            case _:
                raise BadInput(f"xlog knows no {verb}.", hint="Use oldest, current or show.")


def _print_message(one: Any) -> None:
    from headwater.cli.output import visible
    from headwater.pipeline import values

    text = one.data if isinstance(one.data, str) else values.encode(one.data).decode()
    marks = " edited" if one.edited else ""
    typer.echo(f"{one.offset}  {moment(one.timestamp)}  {one.mode} {one.op}  {visible(one.namespace)}{marks}  {visible(text)}")
    if one.unreadable:
        typer.echo(f"    unreadable: {visible(one.unreadable)}")


def audit(name: Name, data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Show what operators have done to a pipeline: when, who, what, and why."""
    with operating(name, data, config) as (operator, _):
        entries = operator.audit()
    if json:
        print_json([msgspec.to_builtins(one) for one in entries])
        return
    rows = [(moment(one.at), one.who, one.what, " ".join(f"{k}={v}" for k, v in one.details.items()), one.why) for one in entries]
    print_table([Column("when"), Column("who"), Column("what"), Column("details"), Column("why")], rows)
