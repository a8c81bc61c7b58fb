"""`headwater wal regions | tables | read | scan | stats | why | verify`: looking needs no ownership, and creates nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import Column, count, counted, print_json, print_json_line, print_table
from headwater.cli.wal_options import Decode, RegionIfAny, RegionName, TableNumber, region_at
from headwater.core.errors import BadInput
from headwater.core.units import rounded_size
from headwater.log.json_form import show_bytes
from headwater.wal.bounds import Included
from headwater.wal.region_topics import region_named, region_topics
from headwater.wire.ranges import read_range

if TYPE_CHECKING:
    from headwater.client.blocking import Blocking
    from headwater.wal.answers import RegionStatistics, RegionSummary
    from headwater.wal.entries import LogEntry

_NOTHING_FOUND = 10
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The most payloads to show.")]
FailEmpty = Annotated[bool, typer.Option("--fail-empty", help="End with exit code 10 when nothing was found.")]


@command(example="headwater wal regions --namespace wal")
def regions(
    at: At,
    namespace: Annotated[str | None, typer.Option("--namespace", metavar="NAME", help="Only the regions of this namespace.")] = None,
) -> None:
    """List every region with the offsets that its log keeps."""
    if namespace is not None:
        region_topics(namespace, 0)
    with at.door() as hw:
        summaries = hw.wal.regions() if namespace is None else hw.wal.regions_of(namespace)
    if at.json:
        print_json(summaries)
    elif summaries:
        columns = (Column("region"), Column("start", True), Column("end", True), Column("segment", True), Column("max record", True))
        print_table(
            columns,
            [
                (
                    f"{summary.namespace}/{summary.region}",
                    str(summary.start),
                    str(summary.end),
                    summary.settings["segment"],
                    summary.settings["max_record"],
                )
                for summary in summaries
                if not summary.problem
            ],
        )
        _print_problems(summaries)
    else:
        typer.echo(f"There are no regions. `{at.command('wal create REGION')}` makes one.", err=True)


@command()
def tables(region: RegionName, at: At) -> None:
    """List the tables of a region: what was written, what is flushed, and what each still needs of the log."""
    with region_at(at, region) as door:
        entries = door.tables()
    if at.json:
        print_json(entries)
    elif entries:
        columns = (Column("table", True), Column("last", True), Column("flushed", True), Column("live", True), Column("needs from", True))
        print_table(
            columns,
            [(str(t.table), str(t.last), str(t.flushed), count(t.live), "-" if t.offset is None else str(t.offset)) for t in entries],
        )
    else:
        typer.echo(f"Region {region_named(region)} has no tables.", err=True)


@command(example="headwater wal read wal/7 12 5..9")
def read(
    region: RegionName,
    table: TableNumber,
    at: At,
    sequences: Annotated[
        str | None,
        typer.Argument(
            metavar="SEQUENCES",
            help="One (17), a range with its last one included (17..20), or all from one on (17..).",
            show_default=False,
        ),
    ] = None,
    decode: Decode = "text",
    limit: Limit = 100,
    fail_empty: FailEmpty = False,
) -> None:
    """Print the live payloads of a table. With `--json` one object a line."""
    first, last = read_range(sequences, "sequences") if sequences is not None else (None, None)
    with region_at(at, region) as door:
        door.tables()  # an unknown region is told before anything is printed
        stream = door.read(table, "min" if first is None else Included(first), "max" if last is None else Included(last))
        shown = _print_entries(at, stream, decode, limit)
    if fail_empty and not shown:
        raise typer.Exit(_NOTHING_FOUND)


@command(example="headwater wal scan wal/7 --tables 1,12")
def scan(
    region: RegionName,
    at: At,
    tables: Annotated[str | None, typer.Option("--tables", metavar="N,N", help="Only these tables.")] = None,
    decode: Decode = "text",
    limit: Limit = 100,
    fail_empty: FailEmpty = False,
) -> None:
    """Print the live payloads of all tables in the order of the log. With `--json` one object a line."""
    if tables is not None and not all(word.strip().isdecimal() for word in tables.split(",")):
        raise BadInput(f"{tables!r} are no numbers of tables.", hint="Write them such as --tables 1,5,12.")
    with region_at(at, region) as door:
        wanted = None if tables is None else [int(word) for word in tables.split(",")]
        shown = _print_entries(at, door.scan(tables=wanted), decode, limit)
    if fail_empty and not shown:
        raise typer.Exit(_NOTHING_FOUND)


@command()
def stats(at: At, region: RegionIfAny = None) -> None:
    """Show what a region holds: offsets, tables, live and pinned entries, snapshots, its owner."""
    if region is not None:
        region_named(region)
    with at.door() as hw:
        reports = _statistics(hw, region)
    if at.json:
        print_json(reports)
        return
    for place, report in enumerate(reports):
        typer.echo(("\n" if place else "") + "\n".join(f"{name:<11}{text}" for name, text in _words(report) if text))


@command()
def why(region: RegionName, at: At) -> None:
    """Say which table pins the log of a region, since when, how much of it, and what to do."""
    with region_at(at, region) as door:
        report = door.why()
    if at.json:
        print_json(report)
        return
    name = region_named(region)
    if report.table is None:
        typer.echo(f"Nothing pins region {name}: everything is flushed.")
        return
    typer.echo(f"Table {report.table} pins region {name} since {report.since}.")
    typer.echo(f"{counted(report.entries, 'record')} of {rounded_size(report.bytes)} could go without it.\n")
    columns = (Column("table", True), Column("needs from", True), Column("since"), Column("first", True), Column("live", True))
    rows = [(str(table.table), str(table.offset), table.since or "-", str(table.sequence), count(table.live)) for table in report.tables]
    print_table(columns, rows)
    typer.echo("")
    for advice in report.advice:
        head, _, words = advice.partition("`headwater ")
        typer.echo(f"{head.rstrip(' :')}:\n  {at.command(words.rstrip('`.'))}")


@command()
def verify(region: RegionName, at: At) -> None:
    """Compare the stored state of a region with the one that its log tells. A difference is exit code 8."""
    with region_at(at, region) as door:
        report = door.verify()
    text = f"Region {region_named(region)} is as its log tells: {counted(report.tables, 'table')}, "
    at.answered(
        report,
        f"{text}{counted(report.live, 'live payload')}, compared with {_compared(report.compared)}, {counted(report.records, 'record')}."
        + "".join(f"\nA snapshot was not used: {problem}." for problem in report.problems),
    )


def _statistics(hw: Blocking, region: str | None) -> list[RegionStatistics]:
    if region is not None:
        named = region_named(region)
        return [hw.wal(named.namespace)[named.region].statistics()]
    summaries = hw.wal.regions()
    _print_problems(summaries)
    return [hw.wal(summary.namespace)[summary.region].statistics() for summary in summaries if not summary.problem]


def _print_problems(summaries: Iterable[RegionSummary]) -> None:
    for summary in summaries:
        if summary.problem:
            typer.echo(f"Region {summary.namespace}/{summary.region} cannot be shown: {summary.problem}", err=True)


def _words(report: RegionStatistics) -> Iterable[tuple[str, str]]:
    yield "region", f"{report.namespace}/{report.region}"
    yield "log", f"offsets {report.start} to {report.end}" + ("" if report.bytes is None else f", {rounded_size(report.bytes)}")
    yield "tables", count(report.tables)
    yield "live", f"{counted(report.live_entries, 'payload')}, about {rounded_size(report.live_bytes)}"
    yield (
        "pinned",
        f"{counted(report.pinned_entries, 'record')}, about {rounded_size(report.pinned_bytes)}" if report.pinned_entries else "",
    )
    yield "needed", f"from offset {report.safe} on"
    yield "snapshots", ", ".join(f"at {stored.watermark}" for stored in report.snapshots) or "none"
    yield "owner", report.owner or "nobody, as far as is known here"
    for problem in report.problems:
        yield "problem", problem


def _print_entries(at: At, stream: Iterable[LogEntry], decode: Decode, limit: int) -> int:
    shown, more = 0, False
    rows: list[tuple[str, ...]] = []
    try:
        for entry in stream:
            if shown == limit:
                more = True
                break
            shown += 1
            payload = show_bytes(entry.payload, decode)
            if at.json:
                print_json_line({"table": entry.table, "sequence": entry.sequence, "offset": entry.offset, "payload": payload})
            else:
                rows.append((str(entry.table), str(entry.sequence), str(entry.offset), _cell(payload)))
    finally:  # show what came before an error, too
        if rows:
            print_table((Column("table", True), Column("sequence", True), Column("offset", True), Column("payload")), rows)
    if not at.json:
        end = " There are more; --limit N shows them." if more else ""
        sys.stderr.write(f"{counted(shown, 'payload')}.{end}\n")
    return shown


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    import msgspec

    return msgspec.json.encode(value).decode()


def _compared(what: str) -> str:
    return "a scan of the whole log" if what == "full scan" else "the older snapshot and what lies behind it"
