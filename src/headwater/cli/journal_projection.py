"""`headwater journal projection`: run projections, look at them, make them anew, and decide about their dead events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_options import JournalTopic, cell, time_cell, topic_at
from headwater.cli.output import Column, agreed, counted, print_json, print_table, visible
from headwater.cli.usage import Command, Group, UsageMistake
from headwater.journal.projection import check_projection_name

if TYPE_CHECKING:
    from headwater.cli.stop import StopSignal
    from headwater.client.blocking import BlockingNamedProjection
    from headwater.journal.projection_run import ProjectionRun

ProjectionName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The name of the projection.", show_default=False, autocompletion=completion.projections),
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, which the audit keeps.", show_default=False)]


@contextmanager
def projection_at(at: At, topic: str, name: str, *, changes: bool = False) -> Iterator[BlockingNamedProjection]:
    """The projection that a command is about."""
    check_projection_name(name)
    with topic_at(at, topic, changes=changes) as journals:
        yield journals.projection(name)


@command(name="list", example="headwater journal projection list bank")
def list_(topic: JournalTopic, at: At) -> None:
    """List the projections of a topic that somebody has run: how far they lag, and their dead events."""
    with topic_at(at, topic) as journals:
        projections = journals.projections()
    if at.json:
        print_json(projections)
    elif projections:
        columns = (Column("name"), Column("positions"), Column("lag", True), Column("dead", True), Column("state"))
        print_table(
            columns,
            [
                (projection.name, projection.positions, str(projection.lag), str(projection.dead), _state(projection))
                for projection in projections
            ],
        )
    else:
        at.note("Nobody has run a projection of this topic.")


@command(example="headwater journal projection status bank balances")
def status(topic: JournalTopic, name: ProjectionName, at: At) -> None:
    """Show how far a projection is, partition by partition, as its runs have told, and why a partition stands."""
    with projection_at(at, topic, name) as projection:
        report = projection.status()
    if at.json:
        print_json(report)
        return
    columns = (
        Column("partition", True),
        Column("offset", True),
        Column("end", True),
        Column("lag", True),
        Column("dead", True),
        Column("told"),
    )
    rows = [
        (str(position.partition), str(position.offset), str(position.end), str(position.lag), str(position.dead), time_cell(position.at))
        for position in report.partitions
    ]
    print_table(columns, rows)
    for partition in report.partitions:
        if partition.error:
            at.note(f"Partition {partition.partition} stands: {visible(partition.error)}")
    at.note(f"{report.name}: {counted(report.lag, 'record')} behind, {counted(report.dead, 'dead event')}, {_state(report)}.")


@command(files=True, example="headwater journal projection run shop.balances:projection")
def run(
    projection: Annotated[
        str, typer.Argument(metavar="MODULE:OBJECT", help="The projection, as an object of a module.", show_default=False)
    ],
    at: At,
    once: Annotated[bool, typer.Option("--once", help="End when it has had what the log holds now.")] = False,
) -> None:
    """Give the events of a topic to a projection's handler as they come, until Ctrl-C. Processes that run it share its partitions.

    With `--once`, a partition that stands at an event is exit code 9.
    """
    import threading

    import msgspec

    from headwater.cli.stop import StopSignal
    from headwater.client.projection_runner import load_projection, opened_run

    loaded = load_projection(projection)
    settings = at.settings()
    settings = msgspec.structs.replace(settings, data=settings.data.absolute())
    with at.told(), StopSignal() as stop:
        with opened_run(loaded, settings) as running:
            threading.Thread(target=_stop_with, args=(stop, running), name="signals", daemon=True).start()
            if not once:
                at.note(f"Running the projection {loaded.name} of {loaded.topic}. Ctrl-C stops.")
            done = running.run(once=once)
    at.answered(done, f"{counted(done.events, 'event')} handled, {counted(done.dead, 'dead event')}.")


def _stop_with(stop: StopSignal, running: ProjectionRun) -> None:
    stop.event.wait()
    running.stop()  # wakes it, where it waits for records


@command("yes", "dry_run", example="headwater journal projection reset bank balances --why 'new column'")
def reset(topic: JournalTopic, name: ProjectionName, at: At, why: Why = "") -> None:
    """Let a projection begin anew, from the first event on. Whoever runs it does so: its reset function empties the read model."""
    with projection_at(at, topic, name, changes=True) as projection:
        outcome = projection.reset(why=why, dry_run=True)
        if not at.dry_run:
            question = f"Make the projection {name} anew, of {counted(outcome.records, 'record')}?"
            if not agreed(question, yes=at.yes):
                raise typer.Exit(1)
            outcome = projection.reset(why=why)
    would = "would be" if at.dry_run else "is"
    at.answered(outcome, f"The projection {name} {would} made anew, of {counted(outcome.records, 'record')}.")
    if not at.dry_run:
        at.note(f"Whoever runs it does so. See how far it is: {at.command(f'journal projection status {topic} {name}')}")


@command("yes", "dry_run", example="headwater journal projection dead bank balances retry 0 17 3")
def dead(
    topic: JournalTopic,
    name: ProjectionName,
    verb: Annotated[
        Literal["list", "show", "retry", "drop"],
        typer.Argument(metavar="list|show|retry|drop", help="What to do.", show_default=False),
    ],
    at: At,
    partition: Annotated[int | None, typer.Argument(metavar="PARTITION", help="The event's partition.", show_default=False)] = None,
    offset: Annotated[int | None, typer.Argument(metavar="OFFSET", help="The offset of its record.", show_default=False)] = None,
    number: Annotated[int | None, typer.Argument(metavar="NUMBER", help="The event's number.", show_default=False)] = None,
    why: Why = "",
) -> None:
    """Handle events that a projection's handler could not take: list them, show one, try it again, or drop it."""
    if verb == "list":
        if partition is not None:
            raise UsageMistake("dead list takes no event.", hint="Leave it out, or see --help for what takes it.")
        _list_dead(topic, name, at)
        return
    if partition is None or offset is None or number is None:
        listing = f"headwater journal projection dead {topic} {name} list"
        raise UsageMistake("Which event?", hint=f"Name its partition, offset and number; list them with `{listing}`.")
    with projection_at(at, topic, name, changes=verb != "show") as projection:
        if verb == "show":
            _show_dead(projection.dead_show(partition, offset, number), at)
            return
        if verb == "retry":
            done = projection.dead_retry(partition, offset, number, why=why, dry_run=at.dry_run)
        else:
            projection.dead_drop(partition, offset, number, why=why, dry_run=True)
            if not at.dry_run and not agreed(f"Drop event {number} at offset {offset} of partition {partition}?", yes=at.yes):
                raise typer.Exit(1)
            done = projection.dead_drop(partition, offset, number, why=why, dry_run=at.dry_run)
    effect = "tried again" if verb == "retry" else "dropped"
    at.answered(done, f"Event {number} at offset {offset} of partition {partition} {'would be' if at.dry_run else 'is'} {effect}.")
    if not at.dry_run:
        at.note("Whoever runs the projection does so.")


def _list_dead(topic: str, name: str, at: At) -> None:
    with projection_at(at, topic, name) as projection:
        events = projection.dead()
    if at.json:
        print_json(events)
    elif events:
        columns = (
            Column("partition", True), Column("offset", True), Column("number", True), Column("id"), Column("state"), Column("error")
        )  # fmt: skip
        rows = [
            (str(event.partition), str(event.offset), str(event.number), event.id, event.state, event.error.partition("\n")[0])
            for event in events
        ]
        print_table(columns, rows)
        first = events[0]
        words = f"journal projection dead {topic} {name} retry {first.partition} {first.offset} {first.number}"
        at.note(f"Try one again: {at.command(words)}")
    else:
        at.note("No event is dead.")


def _show_dead(event: Any, at: At) -> None:
    if at.json:
        print_json(event)
        return
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if value not in (None, ""):
            typer.echo(f"{field:<12}{visible(cell(value))}")


def _state(report: Any) -> str:
    return "is reset" if report.resets else f"{report.standing} standing" if report.standing else "goes on"


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(cls=Group, help="Read models of a topic's events.", no_args_is_help=True)
    for made in (list_, status, run, reset, dead):
        listed: Any = made.listed  # type: ignore[attr-defined]
        tree.command(listed.name, cls=Command, epilog=f"For example: {listed.example}" if listed.example else None)(made)
    return tree
