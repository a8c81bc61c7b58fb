"""`headwater queue create | put | cancel | run-now | pause | resume | delete`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import agreed, counted, print_json, print_json_line, visible
from headwater.cli.queue_options import Key, QueueName, json_or_text, queue_at
from headwater.cli.usage import UsageMistake
from headwater.core.errors import BadInput
from headwater.queue.requests import checked_name

_LINES = 1000  # of standard input, that become one record
_BYTES = 1 << 20


@command("dry_run", example="headwater queue create pages --lease 60s --set max_timeouts=3")
def create(
    queue: QueueName,
    at: At,
    lease: Annotated[str | None, typer.Option("--lease", metavar="DURATION", help="How long a claim lasts (setting `lease`).")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the queue, such as max_timeouts=5; may be given several times."),
    ] = None,
    declaration: Annotated[
        Path | None,
        typer.Option("--declaration", metavar="FILE", help="The queue's columns, as XML or TOML: rows are checked against them."),
    ] = None,
) -> None:
    """Create a queue, or change the settings of one that is there: those that are given; the others stay."""
    changes: dict[str, Any] = {} if lease is None else {"lease": lease}
    for word in settings or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageMistake(f"--set {word} has no value.", hint="Write it such as --set max_timeouts=5.")
        changes[name.strip()] = value.strip()
    checked_name(queue)
    declared = None if declaration is None else _text(declaration)
    with at.door(changes=True, creates=not at.dry_run) as hw:
        made = hw.queue.create_from(queue, changes, declaration=declared, dry_run=at.dry_run)
    would = "would be " if at.dry_run else ""
    what = f"{would}created" if made.created else f"there{', and would be changed' if at.dry_run and changes else ''}"
    kept = made.settings
    at.answered(
        made,
        f"Queue {queue} is {what}: lease {kept['lease']}, {kept['max_timeouts']} timeouts, {kept['max_attempts']} attempts, "
        f"period {kept['period']}.",
    )
    if made.created and not at.dry_run:
        at.note(f"Put a row: {at.command(f'queue put {queue} KEY')}")


@command(example='headwater queue put pages page:/about \'{"why": "edited"}\' --priority 10 --delay 10s')
def put(
    queue: QueueName,
    at: At,
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="The key of the row. Without it, standard input: a row a line, as JSON.", show_default=False),
    ] = None,
    content: Annotated[str | None, typer.Argument(metavar="DATA", help="JSON; what is none is stored as text.", show_default=False)] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", help="0 first, 255 last; as the queue says unless given.")
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="DURATION", help="Not before so long, such as 10s.")] = None,
    process_date: Annotated[str | None, typer.Option("--process-date", metavar="TIME", help="Not before this time, ISO 8601.")] = None,
    expiration_date: Annotated[
        str | None, typer.Option("--expiration-date", metavar="TIME", help="Not after this time, ISO 8601: the row is gone then.")
    ] = None,
    lane: Annotated[str | None, typer.Option("--lane", metavar="NAME", help="Rows of one lane run in their order.")] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="Comes again after so long, such as 1h; `never`: no longer.")
    ] = None,
    cron: Annotated[str | None, typer.Option("--cron", metavar="FIELDS", help="Comes again at these times, such as '0 6 * * 1-5'.")] = None,
    zone: Annotated[str | None, typer.Option("--zone", metavar="ZONE", help="The time zone of `--cron`; UTC unless given.")] = None,
    unique_for: Annotated[
        str | None, typer.Option("--unique-for", metavar="DURATION", help="Ignored where the key was done within this, such as 10m.")
    ] = None,
    after: Annotated[
        list[int] | None, typer.Option("--after", metavar="ID", help="Wait until the row of this id is gone; may be given several times.")
    ] = None,
    after_dead: Annotated[
        str | None,
        typer.Option("--after-dead", metavar="hold|cancel", help="What a dead one of these does: it holds the row, or cancels it."),
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", metavar="TEXT", help="A put that is sent twice under it is done once.")
    ] = None,
) -> None:
    """Put a row, or rows from standard input, and print what became of them once they are durable."""
    options: dict[str, Any] = {
        "priority": priority,
        "delay": delay,
        "process_date": process_date,
        "expiration_date": expiration_date,
        "lane": lane,
        "every": every,
        "cron": cron,
        "zone": zone,
        "unique_for": unique_for,
        "after": after or None,
        "after_dead": after_dead,
    }
    if key is None:
        if any(value is not None for value in (*options.values(), idempotency_key)):
            raise UsageMistake("Rows of standard input have fields of their own.", hint='Write such as {"key": "k", "priority": 10}.')
        _put_lines(queue, at)
        return
    with queue_at(at, queue) as door:
        put = door.put(os.fsencode(key), json_or_text(content), idempotency_key=idempotency_key, **options)
    if at.json:
        from headwater.queue.json_form import show_date

        shown = {"id": put.id, "outcome": put.outcome, "process_date": show_date(put.process_date)}
        print_json({**shown, "raised": True} if put.raised else shown)
        return
    typer.echo(f"Row {put.id}: {put.outcome}.")
    if put.raised:
        at.note("Its process date lay before its insertion date, and was raised to it.")


@command(example="headwater queue cancel pages page:/about")
def cancel(queue: QueueName, key: Key, at: At) -> None:
    """Remove the waiting row of a key. One that is being processed is a conflict, exit code 4."""
    with queue_at(at, queue) as door:
        row = door.cancel(os.fsencode(key))
    at.answered(row.shown(), f"Row {row.id} is cancelled.")


@command(name="run-now", example="headwater queue run-now pages sitemap")
def run_now(queue: QueueName, key: Key, at: At) -> None:
    """Let the waiting row of a key be due now, whatever its date. Its schedule stays. One that is being processed is exit code 4."""
    with queue_at(at, queue) as door:
        row = door.run_now(os.fsencode(key))
    at.answered(row.shown(), f"Row {row.id} is due.")


@command()
def pause(queue: QueueName, at: At) -> None:
    """Give out no rows until `resume`. Puts, and what becomes of claimed rows, go on."""
    with queue_at(at, queue) as door:
        door.pause()
    at.answered({"queue": queue, "paused": True}, f"Queue {queue} is paused.")
    at.note(f"To go on: {at.command(f'queue resume {queue}')}")


@command()
def resume(queue: QueueName, at: At) -> None:
    """Give out rows again."""
    with queue_at(at, queue) as door:
        door.resume()
    at.answered({"queue": queue, "paused": False}, f"Queue {queue} goes on.")


@command("yes", "dry_run", example="headwater queue delete pages")
def delete(queue: QueueName, at: At) -> None:
    """Delete a queue with all of its rows, for good."""
    checked_name(queue)
    with at.door(changes=True) as hw:
        outcome = hw.queue.delete(queue, dry_run=True)
        if not at.dry_run:
            if not agreed(f"Delete queue {queue} with {counted(outcome.rows, 'row')}?", yes=at.yes):
                raise typer.Exit(1)
            outcome = hw.queue.delete(queue)
    at.answered(outcome, f"Queue {queue} {'would be' if at.dry_run else 'is'} gone, with {counted(outcome.rows, 'row')}.")


def _put_lines(queue: str, at: At) -> None:
    from headwater.queue.json_form import show_date

    outcomes: dict[str, int] = {}
    try:
        with queue_at(at, queue) as door:
            for batch in _batches():
                for put in door.put_many(batch):
                    outcomes[put.outcome] = outcomes.get(put.outcome, 0) + 1
                    if at.json:
                        print_json_line({"id": put.id, "outcome": put.outcome, "process_date": show_date(put.process_date)})
                sys.stdout.flush()
    finally:  # what is durable is told, also after an error
        if outcomes and not at.json:
            summary = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
            typer.echo(f"{counted(sum(outcomes.values()), 'row')}: {summary}.")
    if not outcomes:
        at.note("Nothing was put: there was no row.")


def _batches() -> Iterator[list[Any]]:
    from headwater.queue.json_form import read_line

    batch, size = list[Any](), 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            row = read_line(line.strip())
        except BadInput as error:
            raise BadInput(f"Line {number}: {error.message}", hint=error.hint) from None
        if batch and (len(batch) == _LINES or size + len(line) > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(line)
    if batch:
        yield batch


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise BadInput(f"The declaration {visible(str(path))} cannot be read: {error}.", hint="Name a file of XML or TOML.") from None
