"""`headwater wal create | write | mark | drop | move | clean | recover | delete`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import agreed, count, counted, print_json, print_json_line
from headwater.cli.wal_options import RegionName, TableNumber, region_at
from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.wal.region_topics import region_named
from headwater.wal.settings import RegionSettings

_LINES = 1000  # of standard input, that become one record
_BYTES = 1 << 20
_LONGEST = 1e9  # seconds


@command(example="headwater wal create wal/7 --segment 64MiB")
def create(
    region: RegionName,
    at: At,
    segment: Annotated[
        str | None, typer.Option("--segment", metavar="SIZE", help="Close segments of its log at this size (setting `log.segment`).")
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(
            "--period", metavar="PERIOD", help="Close segments at the end of the UTC hour, day or month, or of a duration (`log.period`)."
        ),
    ] = None,
    max_record: Annotated[
        str | None, typer.Option("--max-record", metavar="SIZE", help="Refuse writes above this size (setting `log.max_record`).")
    ] = None,
    disposal: Annotated[
        str | None,
        typer.Option(
            "--disposal",
            metavar="POLICY",
            help="delete, reset or truncate the files of removed segments, or secure- and one of these (`log.disposal`).",
        ),
    ] = None,
    replication: Annotated[
        int | None, typer.Option("--replication", metavar="N", help="Keep it on so many brokers of Kafka (`kafka.replication`).")
    ] = None,
) -> None:
    """Create a region. One that is there stays as it is, unless other settings are given."""
    topics = region_named(region)
    with at.door(changes=True, creates=True) as hw:
        settings = RegionSettings(segment=segment, period=period, max_record=max_record, disposal=disposal, replication=replication)
        made = hw.wal(topics.namespace).create(topics.region, settings)
    at.answered(made, f"Region {topics} is there: {_described(made.settings)}.")


@command(example="headwater wal write wal/7 12 '{\"insert\": 1}'")
def write(
    region: RegionName,
    table: TableNumber,
    at: At,
    payloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAYLOAD", help="Payloads, written as one record. Without any: standard input.", show_default=False),
    ] = None,
    form: Annotated[
        Literal["lines", "raw"],
        typer.Option("--format", help="What standard input is: a payload a line, or all of it one payload."),
    ] = "lines",
    timeout: Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="Give up waiting for a write after so long.")] = None,
) -> None:
    """Write payloads, and print the sequence of the last one once they are durable."""
    if payloads and form == "raw":
        raise typer.BadParameter("With --format raw the payload is standard input; give none here.")
    seconds = None if timeout is None else Duration.parse(timeout).seconds
    if seconds is not None and not 0 < seconds < _LONGEST:
        raise BadInput(f"Nobody can wait for {timeout}.", hint="Give --timeout such as 5s, or leave it out.")
    written, last = 0, 0
    batches = iter([list(map(os.fsencode, payloads))]) if payloads else _batches(form)
    try:
        with region_at(at, region, changes=True) as door:
            for batch in batches:
                last = door.write(table, batch, timeout=seconds)
                written += len(batch)
                if at.json:
                    print_json_line({"table": table, "sequence": last, "written": len(batch)})
                    sys.stdout.flush()
    finally:  # what is durable is told, also after an error
        if written and not at.json:
            typer.echo(f"{counted(written, 'payload')} written to table {table}; the last sequence is {last}.")
    if not written:
        at.note("Nothing was written: there was no payload.")


@command("dry_run", example="headwater wal mark wal/7 12 500")
def mark(
    region: RegionName,
    table: TableNumber,
    sequence: Annotated[int, typer.Argument(metavar="SEQUENCE", help="The last sequence that is safe elsewhere.", show_default=False)],
    at: At,
) -> None:
    """Forget the payloads of a table up to a sequence, with it: they are flushed."""
    with region_at(at, region, changes=not at.dry_run) as door:
        done = door.mark_delete_up_to(table, sequence, dry_run=at.dry_run)
    beyond = f" It ends there: {sequence} was never written." if done.clamped else ""
    at.answered(done, f"Table {table} {_would(at, 'is', 'would be')} flushed up to {done.sequence}.{beyond}")


@command("yes", "dry_run", example="headwater wal drop wal/7 12")
def drop(region: RegionName, table: TableNumber, at: At) -> None:
    """Forget a table and all of its payloads, for good."""
    with region_at(at, region, changes=not at.dry_run) as door:
        outcome = door.drop_table(table, dry_run=True)
        unflushed = f"{counted(outcome.live, 'payload')} that {'is' if outcome.live == 1 else 'are'} not flushed"
        question = f"Drop table {table} of region {region_named(region)}, with {unflushed}?"
        if not at.dry_run:
            if not agreed(question, yes=at.yes):
                raise typer.Exit(1)
            outcome = door.drop_table(table)
    at.answered(outcome, f"Table {table} {_would(at, 'is', 'would be')} gone, with {counted(outcome.live, 'live payload')}.")


@command("dry_run", example="headwater wal move wal/7 12")
def move(region: RegionName, table: TableNumber, at: At) -> None:
    """Copy the live payloads of a table to the end of the log, so that it no longer pins what lies before."""
    with region_at(at, region, changes=not at.dry_run) as door:
        done = door.move(table, dry_run=at.dry_run)
    at.answered(done, f"{counted(done.entries, 'payload')} of table {table} {_would(at, 'moved', 'would move')} to the end of the log.")
    at.note(f"To give the space back: {at.command(f'wal clean {region_named(region)}')}")


@command("dry_run")
def clean(region: RegionName, at: At) -> None:
    """Store the state of a region, and remove what no table needs from the beginning of its log."""
    with region_at(at, region, changes=not at.dry_run) as door:
        done = door.clean(dry_run=at.dry_run)
    moved = f" Moved, because they pinned too much: {', '.join(map(str, done.moved))}." if done.moved else ""
    at.answered(
        done,
        f"The log of region {region_named(region)} {_would(at, 'begins', 'would begin')} at offset {done.start}: "
        f"{count(done.removed)} fewer.{moved}",
    )


@command("yes", "dry_run", example="headwater wal recover wal/7 --accept-loss")
def recover(
    region: RegionName,
    at: At,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Where the beginning of the log is lost, let every table begin with what is left of it.")
    ] = False,
) -> None:
    """Recover the state of a region, and store it anew. Says what it was recovered from."""
    with region_at(at, region, changes=not at.dry_run) as door:
        outcome = door.recover(accept_loss=accept_loss, dry_run=True)
        if not at.dry_run:
            left = f"{counted(outcome.live, 'payload')} of {counted(outcome.tables, 'table')}"
            question = f"Go on with what is left of region {region_named(region)}: {left}?"
            if outcome.lost and not agreed(question, yes=at.yes):
                raise typer.Exit(1)
            outcome = door.recover(accept_loss=accept_loss)
    if at.json:
        print_json(outcome)
        return
    held = f"{counted(outcome.tables, 'table')}, {counted(outcome.live, 'live payload')}"
    typer.echo(f"Region {region_named(region)}: {held}, up to offset {outcome.watermark}.")
    lost = " Something of it is lost." if outcome.lost else ""
    typer.echo(f"Read beside the snapshot: {counted(outcome.records, 'record')}.{lost}")
    for problem in outcome.problems:
        typer.echo(f"A snapshot was not used: {problem}.")


@command("yes", "dry_run", example="headwater wal delete wal/7")
def delete(region: RegionName, at: At) -> None:
    """Delete a region with all of its tables, for good."""
    topics = region_named(region)
    with at.door(changes=not at.dry_run) as hw:
        namespace = hw.wal(topics.namespace)
        outcome = namespace.delete(topics.region, dry_run=True)
        if not at.dry_run:
            if not agreed(f"Delete region {topics} with everything in it, {counted(outcome.offsets, 'record')}?", yes=at.yes):
                raise typer.Exit(1)
            outcome = namespace.delete(topics.region)
    at.answered(outcome, f"Region {topics} {_would(at, 'is', 'would be')} gone, with {counted(outcome.offsets, 'record')}.")


def _batches(form: Literal["lines", "raw"]) -> Iterator[list[bytes]]:
    """The payloads of standard input, those of one record at a time."""
    if form == "raw":
        yield [sys.stdin.buffer.read()]
        return
    batch, size = list[bytes](), 0
    for line in sys.stdin.buffer:
        payload = line.removesuffix(b"\n").removesuffix(b"\r")
        if batch and (len(batch) == _LINES or size + len(payload) > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(payload)
        size += len(payload)
    if batch:
        yield batch


def _described(settings: Mapping[str, str]) -> str:
    words = [f"segments of {settings['segment']}", f"writes up to {settings['max_record']}"]
    if settings["period"] != "0ms":
        words.append(f"period {settings['period']}")
    if settings["disposal"] != "delete":
        words.append(f"disposal {settings['disposal']}")
    return ", ".join(words)


def _would(at: At, done: str, would: str) -> str:
    return would if at.dry_run else done
