"""`headwater log check | repair | compact | import`: maintenance of the embedded log's files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.log_claims import show_claims
from headwater.cli.log_topics import only_partition
from headwater.cli.options import PartitionNumber, TopicIfAny, TopicName
from headwater.cli.output import Column, agreed, count, print_json, print_table
from headwater.core.errors import Damaged, Unsupported
from headwater.core.units import rounded_size
from headwater.log import Log

if TYPE_CHECKING:
    from headwater.log.embedded.log import EmbeddedLog


@command(files=True)
def check(
    at: At,
    topic: TopicIfAny = None,
    partition: Annotated[int | None, typer.Argument(metavar="PARTITION", help="One partition of it.", show_default=False)] = None,
) -> None:
    """Read every batch and compare its checksum. Changes nothing. Ends with exit code 7 and the first damage, if there is any.

    On Kafka: read every record and report which ones count and which ones folds leave out, with their offsets.
    """
    with at.log() as log:
        if log.engine == "kafka":
            show_claims(log, _told(_partitions(log, topic, partition)), json=at.json)
            return
        embedded = _embedded(log, "check its files")
        results = [_checked(embedded, name, number) for name, number in _told(_partitions(log, topic, partition))]
    if at.json:
        print_json(results)
    else:
        columns = [Column("topic"), *(Column(name, True) for name in ("partition", "segments", "records", "bytes")), Column("state")]
        print_table(columns, [_checked_row(result) for result in results])
    for result in results:
        if result["damage"]:
            name = f"{result['topic']} {result['partition']}"
            first = result["damage"][0]
            repair_it = f"`headwater log repair {name} --cut --dry-run` shows what a repair would keep and what is lost."
            with at.told():
                raise Damaged(f"{name} is damaged: {_damage_text(first)}.", hint=first.get("hint", repair_it))


@command("yes", "dry_run", files=True, example="headwater log repair orders 0 --cut --dry-run")
def repair(
    topic: TopicName,
    partition: Annotated[int, typer.Argument(metavar="PARTITION", help="The partition, counted from 0.", show_default=False)],
    at: At,
    cut: Annotated[bool, typer.Option("--cut", help="Cut damaged batches out. The damaged files are kept beside, whole.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make a lost or rotten manifest anew from the segment files.")] = False,
) -> None:
    """Make a damaged partition usable again. Keeps intact batches, and moves damaged segments to side files.

    No other process may have the partition open.
    """
    if cut == rebuild:
        raise typer.BadParameter("Name one way to repair: --cut for damaged batches, --rebuild for a lost manifest.")
    with at.log() as log:
        folder = _embedded(log, "repair its files").reader(topic, partition).folder
    way = _rebuilt if rebuild else _cut
    with at.told():
        way(folder, topic, partition, yes=at.yes, dry_run=at.dry_run, json=at.json)


def _cut(folder: Path, topic: str, partition: int, *, yes: bool, dry_run: bool, json: bool) -> None:
    from headwater.core.clock import SystemClock
    from headwater.core.files import Files, boot_id
    from headwater.log.embedded.repair import repair as repaired

    name = f"{topic} {partition}"
    run = partial(repaired, folder, name=name, files=Files(), clock=SystemClock(), boot=boot_id())
    report = run(dry_run=True)
    lost = sum(end - first for first, end in report.lost)
    if report.damage and not dry_run:
        if not agreed(f"Cut {len(report.damage)} damaged places out of {name}, losing {count(lost)} offsets?", yes=yes):
            return
        report = run()
    if json:
        print_json({"topic": topic, "dry_run": dry_run, **msgspec.to_builtins(report), "partition": partition})
        return
    if not report.damage:
        typer.echo(f"{name} is not damaged; nothing was changed.")
        return
    typer.echo(f"{name} {'would be' if dry_run else 'was'} repaired:")
    for damage in report.damage:
        typer.echo(f"  {_damage_text(msgspec.to_builtins(damage))}")
    for first, end in report.lost:
        typer.echo(f"  offsets {first} to {end - 1} {'would be' if dry_run else 'are'} lost")
    for path in report.side_files:
        typer.echo(f"  {'would be kept' if dry_run else 'kept'} in {path}")


def _rebuilt(folder: Path, topic: str, partition: int, *, yes: bool, dry_run: bool, json: bool) -> None:
    from headwater.core.clock import SystemClock
    from headwater.core.files import Files, boot_id
    from headwater.log.embedded.rebuild import rebuild

    name = f"{topic} {partition}"
    run = partial(rebuild, folder, name=name, files=Files(), clock=SystemClock(), boot=boot_id())
    report = run(dry_run=True)
    if not report.whole and not dry_run:
        absent = sum(end - first for first, end in report.missing)
        holding = f"{count(len(report.segments))} segments, with {count(absent)} offsets in none of them"
        if not agreed(f"Make the manifest of {name} anew from {holding}?", yes=yes):
            return
        report = run()
    if json:
        print_json({"topic": topic, "dry_run": dry_run, **msgspec.to_builtins(report), "partition": partition})
        return
    if report.whole:
        typer.echo(f"{name} has its manifest; nothing was changed.")
        return
    span = f"offsets {report.start} to {report.end - 1}" if report.end > report.start else "no offsets"
    typer.echo(f"The manifest of {name} {'would be' if dry_run else 'was'} made anew, for {span}:")
    for segment in report.segments:
        typer.echo(f"  {segment.file}: {count(segment.records)} records of offsets {segment.first} to {segment.end - 1}")
    for first, end in report.missing:
        typer.echo(f"  offsets {first} to {end - 1} are in no file: lost, or cut out or compacted before")
    for damage in report.damage:
        typer.echo(f"  damaged: {_damage_text(msgspec.to_builtins(damage))}; `headwater log repair {name} --cut` comes next")
    for path in report.side_files:
        typer.echo(f"  {'would be kept' if dry_run else 'kept'}, not used: {path}")


@command()
def compact(
    topic: TopicName,
    at: At,
    before: Annotated[int | None, typer.Option("--before", metavar="X", min=0, help="Touch nothing from this offset on.")] = None,
    partition: PartitionNumber = None,
) -> None:
    """Keep the last record of each key in the closed segments; the active segment is left alone."""
    with at.door(changes=True) as hw:
        described = hw.log.topic(topic)
        if before is not None or partition is not None:
            numbers = [only_partition(described, partition, "an offset belongs to one of them")]
        else:
            numbers = list(range(described.partitions))
        results = [
            {"topic": topic, "partition": number, **msgspec.to_builtins(hw.log.compact(topic, number, before))} for number in numbers
        ]
    if at.json:
        print_json(results)
        return
    names = ("partition", "records before", "after", "bytes before", "after")
    rows = [
        (
            str(result["partition"]),
            count(result["records_before"]),
            count(result["records_after"]),
            rounded_size(result["bytes_before"]),
            rounded_size(result["bytes_after"]),
        )
        for result in results
    ]
    print_table([Column(name, True) for name in names], rows)


@command(name="import", files=True)
def import_directory(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A transporter log directory.", show_default=False)],
    topic: TopicName,
    at: At,
) -> None:
    """Read a transporter log directory into a new topic, keeping its offsets. All or nothing."""
    with at.log(changes=True, creates=True) as log:
        embedded = _embedded(log, "import files")
        from headwater.log.embedded.transporter import import_transporter

        imported = import_transporter(embedded, directory, topic)
    if at.json:
        print_json(msgspec.to_builtins(imported))
        return
    span = f"offsets {imported.start} to {imported.end - 1}" if imported.records else "nothing"
    typer.echo(f"Imported {count(imported.records)} records from {imported.files} files into {topic}: {span}.")
    if imported.torn:
        typer.echo(f"The last record was never finished: {imported.torn} bytes at the end were left out.")


# -- helpers ----------------------------------------------------------------------------------------------------


def _embedded(log: Log, what: str) -> EmbeddedLog:
    from headwater.log.embedded.log import EmbeddedLog

    if not isinstance(log, EmbeddedLog):
        raise Unsupported(f"The {log.engine} engine cannot {what}.", hint="Kafka's own tools look after the brokers' files.")
    return log


def _partitions(log: Log, topic: str | None, partition: int | None) -> list[tuple[str, int]]:
    if topic is None:
        return [(described.name, number) for described in log.topics() for number in range(described.partitions)]
    return [(topic, number) for number in (range(log.topic(topic).partitions) if partition is None else [partition])]


def _told(places: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The same partitions, with a progress bar on stderr if it is a terminal."""
    if not sys.stderr.isatty() or len(places) < 2:
        yield from places
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(places, description="checking", console=Console(stderr=True), transient=True)


def _checked(log: EmbeddedLog, topic: str, partition: int) -> dict[str, Any]:
    from headwater.log.embedded.check import check as checked

    try:
        seen = msgspec.to_builtins(checked(log.reader(topic, partition)))
        return {"topic": topic, **seen, "partition": partition}
    except Damaged as error:  # no usable manifest: the other partitions are still checked
        damage = [{"file": "", "position": -1, "offset": -1, "what": error.message.rstrip("."), "hint": error.hint}]
        return {"topic": topic, "partition": partition, "segments": 0, "records": 0, "bytes": 0, "damage": damage}


def _checked_row(partition: dict[str, Any]) -> tuple[str, ...]:
    numbers = [count(partition["segments"]), count(partition["records"]), rounded_size(partition["bytes"])]
    state = (
        f"damaged in {len(partition['damage'])} places" if len(partition["damage"]) > 1 else "damaged" if partition["damage"] else "whole"
    )
    return (partition["topic"], str(partition["partition"]), *numbers, state)


def _damage_text(damage: dict[str, Any]) -> str:
    if not damage["file"]:
        return str(damage["what"])
    return f"{damage['file']} at byte {damage['position']}, offset {damage['offset']}: {damage['what']}"
