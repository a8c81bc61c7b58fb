"""`headwater journal topics | ids | pointer | pointers | status | trail`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_options import (
    NOTHING_FOUND,
    Consistent,
    FailEmpty,
    JournalId,
    JournalTopic,
    JournalTopicIfAny,
    journal_at,
    time_cell,
    topic_at,
)
from headwater.cli.output import Column, counted, print_json, print_json_line, print_table, visible
from headwater.log.record import check_topic_name

if TYPE_CHECKING:
    from headwater.journal.answers import TopicStatus, TrailRecord


@command()
def topics(at: At) -> None:
    """List the topics of journals."""
    with at.door() as hw:
        entries = hw.journals.list()
    if at.json:
        print_json(entries)
    elif entries:
        columns = (Column("topic"), Column("partitions", True), Column("writers"), Column("cipher"))
        print_table(columns, [(entry.topic, str(entry.partitions), entry.writers, entry.cipher or "-") for entry in entries])
    else:
        at.note(f"There are no journals. `{at.command('journal create TOPIC')}` makes a topic of them.")


@command(example="headwater journal ids bank --limit 20")
def ids(
    topic: JournalTopic,
    at: At,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="The most ids to print; all unless given.", show_default=False)
    ] = None,
    fail_empty: FailEmpty = False,
) -> None:
    """Print the ids of a topic's journals, one a line, sorted. Purged ones are left out. With `--json` each is a text of JSON."""
    shown, more = 0, False
    with topic_at(at, topic) as journals:
        for id in journals.ids():
            if shown == limit:
                more = True
                break
            shown += 1
            if at.json:
                print_json_line(id)
            else:
                sys.stdout.write(visible(id) + "\n")
    at.note(f"{counted(shown, 'journal')}.{' There are more; --limit N shows them.' if more else ''}")
    if fail_empty and not shown:
        raise typer.Exit(NOTHING_FOUND)


@command(example="headwater journal pointer bank alice")
def pointer(topic: JournalTopic, id: JournalId, at: At, consistency: Consistent = "end", fail_empty: FailEmpty = False) -> None:
    """Print the last number of a journal; with `--json` its head, or null. A journal that is not there has none."""
    with journal_at(at, topic, id, changes=consistency == "mark") as journal:
        head = journal.head(consistency=consistency)
    if at.json:
        print_json(head)
    elif head is not None:
        typer.echo(str(head.seq_nr))
    else:
        at.note(f"There is no journal {visible(id)}. Its first Append creates it.")
    if fail_empty and head is None:
        raise typer.Exit(NOTHING_FOUND)


@command(example="headwater journal pointers bank")
def pointers(topic: JournalTopic, at: At) -> None:
    """Show for each partition how far its records are copied into the store."""
    with topic_at(at, topic) as journals:
        positions = journals.pointers()
    if at.json:
        print_json(positions)
        return
    columns = (Column("partition", True), Column("copied to", True), Column("end", True), Column("lag", True), Column("updated"))
    print_table(columns, [(str(p.partition), str(p.offset), str(p.end), str(p.lag), time_cell(p.updated)) for p in positions])


@command(example="headwater journal status bank")
def status(at: At, topic: JournalTopicIfAny = None) -> None:
    """Show topics of journals, their partitions, how far they are copied, and the head caches of the process that answers."""
    if topic is not None:
        check_topic_name(topic)
    with at.door() as hw:
        names = [entry.topic for entry in hw.journals.list()] if topic is None else [topic]
        reports = [hw.journals(name).status() for name in names]
    if at.json:
        print_json(reports)
        return
    if not reports:
        at.note(f"There are no journals. `{at.command('journal create TOPIC')}` makes a topic of them.")
    for place, report in enumerate(reports):
        typer.echo(("\n" if place else "") + _words(report))
        columns = [Column(name, True) for name in ("partition", "start", "end", "copied to", "lag", "cached", "hits", "misses")]
        print_table(
            columns,
            [tuple(map(str, (p.partition, p.start, p.end, p.pointer, p.lag, p.cached, p.hits, p.misses))) for p in report.partitions],
        )
        for stopped in (p for p in report.partitions if p.problem):
            typer.echo(f"Partition {stopped.partition} is not copied: {visible(stopped.problem)}")


def _words(report: TopicStatus) -> str:
    copied = "everything is copied" if not report.lag else f"{counted(report.lag, 'record')} not copied yet"
    doubles = sum(partition.duplicates for partition in report.partitions)
    replaced = f"; {counted(doubles, 'event')} gave way to another one of the same number" if doubles else ""
    cipher = f", cipher {report.cipher}" if report.cipher else ""
    engine = {"here": "\nThe last round ran in the replicator.", "spark": "\nThe last round ran on Spark."}.get(report.engine or "", "")
    return f"Topic {report.topic}: writers {report.writers}, store {report.store}{cipher}; {copied}{replaced}.{engine}"


@command(example="headwater journal trail bank alice")
def trail(
    topic: JournalTopic,
    id: JournalId,
    at: At,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The most records, the newest ones.")] = 100,
) -> None:
    """Show a journal on its way: its newest records in the log, its head in the store, and how far the store lags behind."""
    with journal_at(at, topic, id) as journal:
        report = journal.trail(limit=limit)
    if at.json:
        print_json(report)
        return
    if report.records:
        columns = [Column("offset", True), Column("time"), Column("action"), Column("events"), Column("copied")]
        rows = [_row(record) for record in report.records]
        if len({record.partition for record in report.records}) > 1:  # the topic grew
            columns = [Column("partition", True), *columns]
            rows = [(str(record.partition), *row) for record, row in zip(report.records, rows, strict=True)]
        print_table(columns, rows)
    stored = "nothing of it" if report.stored is None else f"events up to {report.stored.seq_nr}, {counted(report.rows, 'row')}"
    left = (
        f"{counted(report.lag, 'record')} of it {'is' if report.lag == 1 else 'are'} not copied yet"
        if report.lag
        else "all of it is copied"
    )
    typer.echo(f"The store holds {stored}.")
    typer.echo(f"Partition {report.partition} ends before offset {report.end}; {left}.")
    if report.head is None:
        at.note(f"There is no journal {visible(id)}.")


def _row(record: TrailRecord) -> tuple[str, ...]:
    if record.first is not None:
        numbers = str(record.first) if record.first == record.last else f"{record.first}..{record.last}"
    else:
        numbers = f"to {record.to}" if record.to is not None else record.mark or record.problem
    return str(record.offset), time_cell(record.timestamp), record.action, numbers, "yes" if record.copied else "no"
