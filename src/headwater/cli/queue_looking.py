"""`headwater queue list | show | get | rows | count | stats | history | schedules | listen`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import Column, count, counted, print_json, print_json_line, print_table, visible
from headwater.cli.queue_options import (
    NOTHING_FOUND,
    FailEmpty,
    Key,
    KeyPrefix,
    Limit,
    QueueIfAny,
    QueueName,
    State,
    cell,
    queue_at,
    short,
    when,
)
from headwater.core.units import rounded_size
from headwater.queue.requests import checked_name

if TYPE_CHECKING:
    from headwater.queue.answers import EventCounts, ShownRow, ShownStatistics

_KEY, _DATA = 24, 20  # characters of a key and of data in a table of 80 columns


@command(name="list")
def list_queues(at: At) -> None:
    """List the queues with their settings."""
    with at.door() as hw:
        queues = hw.queue.list()
    if at.json:
        print_json(queues)
    elif queues:
        columns = (
            Column("queue"),
            Column("region", True),
            Column("lease", True),
            Column("priority", True),
            Column("period"),
            Column("disposal"),
        )
        rows = [
            (entry.queue, str(entry.region), *(str(entry.settings[name]) for name in ("lease", "priority", "period", "disposal")))
            for entry in queues
        ]
        print_table(columns, rows)
    else:
        at.note(f"There are no queues. `{at.command('queue create QUEUE')}` makes one.")


@command(example="headwater queue show pages")
def show(queue: QueueName, at: At) -> None:
    """Show the settings of a queue, and the declaration of its columns."""
    checked_name(queue)
    with at.door() as hw:
        report = hw.queue(queue).show()
    if at.json:
        print_json(report)
        return
    for name, value in {"queue": report.queue, "region": report.region, "version": report.version, **report.settings}.items():
        typer.echo(f"{name:<22}{visible(cell(value))}")
    if report.declaration:
        text = "\n".join(visible(line) for line in report.declaration.strip().splitlines())
        typer.echo(f"\nDeclaration, version {report.declared}:\n{text}")


@command(example="headwater queue get pages page:/about")
def get(
    queue: QueueName,
    key: Key,
    at: At,
    by_id: Annotated[bool, typer.Option("--id", help="KEY is the id of the row.")] = False,
) -> None:
    """Show the row of a key: the one that is being processed, where there is one."""
    if by_id and not key.isdecimal():
        raise typer.BadParameter(f"{key!r} is no id of a row.")
    with queue_at(at, queue) as door:
        shown = (door.get_id(int(key)) if by_id else door.get(os.fsencode(key))).shown()
    if at.json:
        print_json(shown)
        return
    for name in shown.__struct_fields__:
        value = getattr(shown, name)
        if value not in (None, "", False, ()) or name == "data":
            typer.echo(f"{name:<22}{visible(cell(value))}")


@command(example="headwater queue rows pages --state due --limit 20")
def rows(
    queue: QueueName,
    at: At,
    state: Annotated[State | None, typer.Option("--state", help="Only rows of this state.")] = None,
    key: KeyPrefix = "",
    limit: Limit = 100,
    fail_empty: FailEmpty = False,
) -> None:
    """List rows by id. With `--json` one object a line."""
    shown: list[ShownRow] = []
    with queue_at(at, queue) as door:
        for row in door.rows(state=state, prefix=key, limit=limit + 1):
            if len(shown) < limit and at.json:
                print_json_line(row.shown())
            shown.append(row.shown())
    more = len(shown) > limit
    if shown and not at.json:
        columns = (Column("id", True), Column("key"), Column("st"), Column("prio", True), Column("process date"), Column("data"))
        print_table(columns, map(_row, shown[:limit]))
    if not at.json:
        sys.stderr.write(f"{counted(min(len(shown), limit), 'row')}.{' There are more; --limit N shows them.' if more else ''}\n")
    if fail_empty and not shown:
        raise typer.Exit(NOTHING_FOUND)


@command(name="count")
def count_rows(queue: QueueName, at: At) -> None:
    """Count the rows of a queue by state."""
    with queue_at(at, queue) as door:
        counts = door.count()
    text = (
        f"{count(counts.due)} due, {count(counts.future)} later, {count(counts.held)} held back, "
        f"{count(counts.processing)} being processed, "
    )
    at.answered(counts, f"{text}{count(counts.dead)} dead.")


@command()
def stats(at: At, queue: QueueIfAny = None) -> None:
    """Show what a queue holds, and what has happened since its process opened it."""
    if queue is not None:
        checked_name(queue)
    with at.door(changes=True) as hw:
        names = [queue] if queue is not None else [entry.queue for entry in hw.queue.list()]
        reports = [hw.queue(name).statistics() for name in names]
    if at.json:
        print_json(reports)
        return
    for place, report in enumerate(reports):
        typer.echo(("\n" if place else "") + "\n".join(f"{name:<11}{text}" for name, text in _words(report) if text))
    for report in reports:
        if report.rows.dead:
            at.note(f"See the dead rows of {report.queue}: {at.command(f'queue dead {report.queue} list')}")


@command(example="headwater queue history pages page:/about")
def history(queue: QueueName, key: Key, at: At) -> None:
    """Show what the log still holds of a key, the oldest first. With `--json` one object a line."""
    with queue_at(at, queue) as door:
        changes = door.history(os.fsencode(key))
    if at.json:
        for change in changes:
            print_json_line(change)
    elif changes:
        columns = (Column("sequence", True), Column("date"), Column("change"), Column("row", True), Column("detail"))
        print_table(columns, [(str(c.sequence), f"{c.date[:10]} {c.date[11:23]}", c.change, str(c.id), c.detail) for c in changes])
    else:
        at.note("The log holds nothing of this key.")


@command()
def schedules(queue: QueueName, at: At) -> None:
    """List the rows that come again, by key: their schedules, and when they run next. With `--json` one object a line."""
    with queue_at(at, queue) as door:
        entries = door.schedules()
    if at.json:
        for row in entries:
            print_json_line(row)
    elif entries:
        columns = (Column("key"), Column("schedule"), Column("zone"), Column("next run"))
        print_table(columns, [(short(visible(cell(row.key)), _KEY), row.schedule, row.zone or "", when(row.next_run)) for row in entries])
    else:
        at.note("No row comes again.")


@command()
def listen(
    queue: QueueName,
    at: At,
    most: Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="End after so many events.")] = None,
) -> None:
    """Print rows that become due, rows that die, and how many rows there are, as it happens, until Ctrl-C.

    With `--json` one object a line.
    """
    seen = 0
    with queue_at(at, queue) as door:
        door.count()  # an unknown queue is told before anything is printed
        for event in door.listen():
            if at.json:
                print_json_line(event)
            elif event.kind == "due":
                typer.echo(f"{event.date}  {counted(event.count, 'row')} due")
            elif event.counts is not None:
                typer.echo(f"{event.date}  {'events were missed; ' * (event.kind == 'reset')}{_counts(event.counts)}")
            else:
                typer.echo(f"{event.date}  row {event.id} is dead ({event.reason}): {visible(cell(event.key))}")
            sys.stdout.flush()
            seen += 1
            if seen == most:
                return


def _counts(event: EventCounts) -> str:
    rows, rates = event.rows, event.rates
    parts = [f"{count(rows.due)} due, {count(rows.future)} later, {count(rows.held)} held back, {count(rows.processing)} being processed"]
    parts.append(f"{count(rows.dead)} dead" if rows.dead else "")
    parts.append("paused" if event.paused else "")
    each = [f"{rate:g} {name}" for name, rate in (("put", rates.puts), ("done", rates.done), ("failed", rates.failed)) if rate]
    parts.append(f"a second: {', '.join(each)}" if each else "")
    parts.append(f"oldest due for {event.due_lag_seconds:.1f} s" if event.due_lag_seconds >= 1 else "")
    return "; ".join(word for word in parts if word)


def _row(shown: ShownRow) -> tuple[str, ...]:
    key, data = short(cell(shown.key), _KEY), short(cell(shown.data), _DATA)
    return (str(shown.id), key, shown.status, str(shown.priority), when(shown.process_date), data)


def _words(report: ShownStatistics) -> Iterable[tuple[str, str]]:
    yield "queue", report.queue + (", paused" if report.paused else "")
    rows = report.rows
    yield (
        "rows",
        f"{count(rows.due)} due, {count(rows.future)} later, {count(rows.held)} held back, {count(rows.processing)} being processed",
    )
    yield "dead", counted(rows.dead, "row") if rows.dead else ""
    yield "oldest due", report.oldest_due or ""
    yield "waiting", counted(report.waiting_claims, "claim") if report.waiting_claims else ""
    yield (
        "put",
        f"{count(report.puts)}, {count(report.merges)} of them merged" + (f", {count(report.ignored)} ignored" if report.ignored else ""),
    )
    yield "claimed", f"{count(report.claims)}; {count(report.done)} done, {count(report.failed)} failed, {count(report.released)} released"
    yield (
        "ended",
        f"{count(report.timed_out)} leases, {count(report.expired)} rows expired, {count(report.cancelled)} cancelled, "
        f"{count(report.died)} died",
    )
    yield "results", f"{count(report.results)}, {rounded_size(report.result_bytes)}" if report.results else ""
    yield "done keys", count(report.done_keys) if report.done_keys else ""
    yield "kept answers", count(report.answers) if report.answers else ""
    yield "log", f"region queue/{report.region}, {counted(report.log_records, 'record')}, {rounded_size(report.log_bytes)}"
