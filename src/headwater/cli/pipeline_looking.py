"""`headwater pipeline list | status | xlog | audit`: read-only commands, which create and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import Column, count, print_json, print_json_line, print_table, visible
from headwater.cli.pipeline_options import Name, no_more, opened, several
from headwater.cli.usage import UsageMistake
from headwater.wire.ranges import read_closed_range

if TYPE_CHECKING:
    from headwater.pipeline.operating.answers import Seen, SinkPosition, Status

_DETAIL = 80  # characters of one detail of the audit, and of a cursor
_NAMESPACES = 20  # of a status


@command(name="list")
def list_pipelines(at: At) -> None:
    """List the pipelines that have run here."""
    with at.door() as hw:
        pipelines = hw.pipelines.list()
    if at.json:
        print_json(pipelines)
        return
    if not pipelines:
        at.note("No pipeline has run here. `headwater pipeline init SRC SINK` writes one to begin with.")
        return
    columns = [
        Column("pipeline"),
        Column("state"),
        Column("messages", True),
        Column("sinks", True),
        Column("lag", True),
        Column("last run"),
    ]
    print_table(
        columns,
        [
            (pipeline.pipeline, pipeline.state, count(pipeline.end), str(len(pipeline.sinks)), count(pipeline.lag), when(pipeline.began))
            for pipeline in pipelines
        ],
    )
    for pipeline in pipelines:
        if pipeline.state == "lost":
            at.note(f"The log of {pipeline.pipeline} was in {pipeline.log_dir}, where it cannot be read now.")
        elif pipeline.state == "damaged":
            at.note(f"What is known of {pipeline.pipeline} cannot be read: {at.command(f'pipeline status {pipeline.pipeline}')}")


def when(moment: str | None) -> str:
    """A time, short enough for a table: 2026-11-16 04:00:00Z."""
    return "-" if moment is None else f"{moment[:10]} {moment[11:19]}Z"


@command()
def status(name: Name, at: At) -> None:
    """Show a pipeline: its run, its source, and every sink's position."""
    with opened(at, name) as pipeline:
        shown = pipeline.status()
    if at.json:
        print_json(shown)
        return
    began = f"; began {when(shown.began)} as {shown.process}" if shown.began else ""
    read = f": {shown.progress}" if shown.progress is not None and shown.progress.percent != 100 else ""
    typer.echo(f"{name}: {shown.state}{began}; source in phase {shown.phase or '-'}{read}")
    print_table(PLACES, [place_row(place) for place in shown.sinks])
    _print_namespaces(name, shown, at)
    _notes(name, shown, at)


def _print_namespaces(name: str, shown: Status, at: At) -> None:
    """How far each namespace is read; of many those first whose copy is not finished."""
    if not shown.namespaces:
        return
    ordered = sorted(shown.namespaces, key=lambda namespace: (namespace.phase != "copy", namespace.namespace))
    rows = [
        (
            visible(namespace.namespace),
            namespace.phase,
            f"{namespace.finished} of {namespace.slices}" if namespace.slices else "-",
            _cursor(namespace.cursor),
        )
        for namespace in ordered[:_NAMESPACES]
    ]
    typer.echo("")
    print_table([Column("namespace"), Column("phase"), Column("slices", True), Column("cursor")], rows)
    if (more := len(ordered) - _NAMESPACES) > 0:
        typer.echo(f"{several(more, 'more namespace')}: {at.command(f'pipeline status {name} --json')}")


def _cursor(cursor: object) -> str:
    import msgspec

    return "-" if cursor is None else _brief(visible(msgspec.json.encode(cursor).decode()))


def _notes(name: str, shown: Status, at: At) -> None:
    """Things that need an operator, each with the next command."""
    if shown.state == "silent":
        typer.echo(f"The run has given no sign of life since {when(shown.seen)}. If its machine is lost, a new run shuts it out:")
        typer.echo(f"  headwater pipeline run {shown.file or 'FILE'}")
    stopped = [(place.sink, place.error) for place in shown.sinks if place.error is not None and place.state == "stopped"]
    for offset in sorted({error.offset for _, error in stopped if error.of_message}):
        typer.echo(f"See message {offset}, and what to do: {at.command(f'pipeline xlog {name} show {offset}')}")
    again = at.command(f"pipeline run {shown.file or 'FILE'}")
    if shown.error and not any(error.message == shown.error for _, error in stopped):  # an error of the source
        typer.echo(f"The run failed: {visible(shown.error.partition(chr(10))[0])}")
        if shown.hint:
            typer.echo(f"  {shown.hint}")
        typer.echo(f"Once the cause is mended: {again}")
    for sink in (sink for sink, error in stopped if not error.of_message):
        typer.echo(f"{sink} has failed, but not at a message. Once the cause is mended: {again}")
    for place in shown.sinks:
        if place.state == "unreachable" and place.error is not None:
            typer.echo(f"The run waits for {place.sink} since {when(place.error.at)}, and goes on by itself once that can be reached.")
    for place in shown.sinks:
        for change in (change for change in place.columns if change.before):
            column = f"{change.table}.{change.column}" if change.table else change.column
            typer.echo(f"{place.sink}: column {column} was made wider for message {change.offset}: {change.before} became {change.after}")
    if shown.dead:
        typer.echo(f"{several(shown.dead, 'message', 'is')} put aside: {at.command(f'pipeline dead {name} list')}")
    if shown.edits:
        typer.echo(f"{several(shown.edits, 'message', 'has')} a corrected copy: {at.command(f'pipeline audit {name}')}")


PLACES = [Column("sink"), Column("position", True), Column("end", True), Column("lag", True), Column("state"), Column("error")]


def place_row(place: SinkPosition) -> tuple[str, ...]:
    text = "-" if place.error is None else place.error.message.partition("\n")[0]
    # other errors are not about a message
    error = f"{place.error.offset}: {text}" if place.error is not None and place.error.of_message else text
    return (place.sink, str(place.position), str(place.end), count(place.lag), place.state, error)


@command(example="headwater pipeline xlog shop show 10..18")
def xlog(
    name: Name,
    verb: Annotated[
        Literal["oldest", "current", "show"],
        typer.Argument(metavar="oldest|current|show", help="What to look at.", show_default=False),
    ],
    at: At,
    messages: Annotated[
        str | None, typer.Argument(metavar="X[..Y]", help="Which messages to show, both ends included.", show_default=False)
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", metavar="RE", help="Only namespaces that this expression finds.")] = ".*",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = 1000,
) -> None:
    """Read a pipeline's log: the oldest offset, the newest, or messages. A single message comes with its error and traceback."""
    with opened(at, name) as pipeline:
        match verb:
            case "oldest" | "current":
                no_more(f"xlog {verb}", messages)
                bounds = pipeline.bounds()
                value = bounds.start if verb == "oldest" else bounds.end - 1
                print_json({verb: value}) if at.json else typer.echo(str(value))
            case "show":
                if messages is None:
                    raise UsageMistake("Which messages?", hint=f"As in `headwater pipeline xlog {name} show 0..9`.")
                first, last = read_closed_range(messages)
                shown = 0
                for message in pipeline.messages(first, last, namespace=namespace, limit=limit):
                    print_json_line(message) if at.json else _print_message(name, message, at, whole=first == last)
                    shown, reached = shown + 1, message.offset
                if not shown:
                    at.note(f"Nothing of {messages} is shown: compaction has taken it, or its namespace is another.")
                elif shown == limit and reached < min(last, pipeline.bounds().end - 1):
                    at.note(f"There is more: {at.command(f'pipeline xlog {name} show {reached + 1}..{last}')}")


def _print_message(name: str, message: Seen, at: At, *, whole: bool) -> None:
    from headwater.pipeline.operating.message_view import text_of

    marks = " edited" if message.edited else ""
    text = visible(text_of(message.data))
    typer.echo(f"{message.offset}  {message.timestamp or '-'}  {message.mode} {message.op}  {visible(message.namespace)}{marks}  {text}")
    if message.unreadable:
        typer.echo(f"    unreadable: {visible(message.unreadable)}")
    for copy in message.copies:
        typer.echo(f"    delivered to {copy.sink or 'every sink'} as {visible(text_of(copy.data))}")
    for no in message.refused:
        typer.echo(f"    {no.sink} stands here: {visible(no.message)}")
    if not (whole and message.refused):
        return
    for trace in dict.fromkeys(no.trace for no in message.refused if no.trace):
        for line in trace.splitlines():
            typer.echo(f"      {visible(line)}")
    refused = [no for no in message.refused if no.of_message]
    if refused:
        option = "--doc FILE" if message.unreadable else "--set FIELD=JSON"
        at.note(f"Correct it: {at.command(f'pipeline edit {name} {message.offset} {option} --why ...')}")
    for no in refused:
        at.note(f"Skip it:    {at.command(f'pipeline ack {name} {no.sink} {message.offset} --why ...')}")


def _brief(value: object) -> str:
    """Shorten a detail: a whole document would not fit the table. `--json` prints it whole."""
    text = str(value)
    return text if len(text) <= _DETAIL else f"{text[:_DETAIL]}..."


@command()
def audit(name: Name, at: At) -> None:
    """Show what operators have done to a pipeline: when, who, what, and why."""
    with opened(at, name) as pipeline:
        entries = pipeline.audit()
    if at.json:
        print_json(entries)
    elif entries:
        rows = [
            (when(entry.at), entry.who, entry.what, " ".join(f"{k}={_brief(v)}" for k, v in entry.details.items()), entry.why)
            for entry in entries
        ]
        print_table([Column("when"), Column("who"), Column("what"), Column("details"), Column("why")], rows)
    else:
        at.note(f"Nobody has changed anything of {name}.")
