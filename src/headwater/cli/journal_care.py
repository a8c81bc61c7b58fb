"""`headwater journal stats | forks | verify | base | rebuild | expire | dead`: the care of the copies in the store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_options import NOTHING_FOUND, FailEmpty, JournalTopic, cell, time_cell, topic_at
from headwater.cli.output import Column, agreed, counted, print_json, print_table, visible
from headwater.cli.usage import UsageMistake
from headwater.journal.names import SNAPSHOTS

if TYPE_CHECKING:
    from headwater.journal.care_requests import ShownDead

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, which the audit keeps.", show_default=False)]


@command(example="headwater journal stats bank")
def stats(topic: JournalTopic, at: At) -> None:
    """Count what the log keeps and what the copy holds of a topic's journals, by partition."""
    with topic_at(at, topic) as journals:
        report = journals.stats()
    if at.json:
        print_json(report)
        return
    names = ("partition", "journals", "events", "bytes", "records", "lag", "forks", "gaps", "deleted", "expired")
    rows = [
        (p.partition, p.journals, p.events, p.payload_bytes, p.records, p.lag, p.forks, p.gaps, p.deleted, p.expired)
        for p in report.partitions
    ]
    total = ["all", *map(sum, list(zip(*rows, strict=True))[1:])]
    engine = {"here": "; the last round ran in the replicator", "spark": "; the last round ran on Spark"}.get(report.engine or "", "")
    oldest = max(p.lag_seconds for p in report.partitions)
    behind = f"; the oldest record that it lacks is {oldest:.1f} s old" if oldest else ""
    typer.echo(f"Topic {report.topic}: copied into {report.store}{engine}{behind}.")
    print_table([Column(name, True) for name in names], [tuple(map(str, row)) for row in [*rows, total]])


@command(example="headwater journal forks bank")
def forks(topic: JournalTopic, at: At, fail_empty: FailEmpty = False) -> None:
    """List the numbers of journals that several events have, as two writers make them, copied or not: the first thousand."""
    with topic_at(at, topic) as journals:
        report = journals.forks()
    if at.json:
        print_json(report)
    elif report.forks:
        columns = (Column("id"), Column("number", True), Column("partition", True), Column("offsets"))
        print_table(columns, [(fork.id, str(fork.seq_nr), str(fork.partition), ", ".join(map(str, fork.offsets))) for fork in report.forks])
        at.note("These are the first thousand, and there are more." if report.more else f"{counted(len(report.forks), 'fork')}.")
    else:
        at.note("No number has several events.")
    if fail_empty and not report.forks:
        raise typer.Exit(NOTHING_FOUND)


@contextmanager
def _progress(at: At) -> Iterator[Callable[[int, int], None] | None]:
    """Shows progress on stderr if it is a terminal."""
    if at.json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("records", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


@command(example="headwater journal verify bank")
def verify(topic: JournalTopic, at: At) -> None:
    """Compare the copy of a topic's journals with what the log says. A difference is exit code 8."""
    with topic_at(at, topic) as journals, _progress(at) as progress:
        report = journals.verify(progress=progress)
    if report.waiting and not report.records:
        waits = f"{counted(report.waiting, 'record')} {'waits' if report.waiting == 1 else 'wait'}"
        text = f"verify: nothing of {report.topic} is copied yet: {waits}. Copy with `headwater journal replicate --once`."
        at.answered(report, text)
        return
    snapshots = f" and {counted(report.snapshots, 'snapshot')}" if report.snapshots else ""
    waiting = (
        f" {counted(report.waiting, 'record')} more {'is' if report.waiting == 1 else 'are'} not copied yet." if report.waiting else ""
    )
    at.answered(
        report,
        f"verify: equal. {counted(report.records, 'record')} of {report.topic} {'makes' if report.records == 1 else 'make'} "
        f"{counted(report.journals, 'journal')} with "
        f"{counted(report.events, 'event')}{snapshots}, as the store has them.{waiting}",
    )


@command("dry_run", example="headwater journal base bank")
def base(topic: JournalTopic, at: At) -> None:
    """Verify the copy of a topic's journals, and keep it as the base from which `rebuild` begins once the log is deleted."""
    with topic_at(at, topic, changes=True) as journals:
        outcome = journals.base(dry_run=at.dry_run)
    events, size = sum(partition.events for partition in outcome.partitions), sum(partition.bytes for partition in outcome.partitions)
    journals_held = sum(partition.journals for partition in outcome.partitions)
    would = f"would hold {counted(events, 'event')}" if at.dry_run else f"holds {counted(events, 'event')}, in {counted(size, 'byte')}"
    count = sum(partition.snapshots for partition in outcome.partitions)
    snapshots = f" and {counted(count, 'snapshot')}" if count else ""
    at.answered(outcome, f"verify: equal. The base of {outcome.topic} {would} of {counted(journals_held, 'journal')}{snapshots}.")


@command("yes", "dry_run", example="headwater journal rebuild bank --why 'new disk'")
def rebuild(topic: JournalTopic, at: At, why: Why = "") -> None:
    """Let the replicator make the copy of a topic's journals anew, from the beginning of the log or from its base. Reads stay right
    meanwhile; in Cassandra they fail while a base is restored."""
    with topic_at(at, topic, changes=True) as journals:
        outcome = journals.rebuild(why=why, dry_run=True)
        if not at.dry_run:
            question = f"Make the copy of {outcome.topic} anew, of {counted(outcome.records, 'record')}?"
            if not agreed(question, yes=at.yes):
                raise typer.Exit(1)
            with _progress(at) as progress:
                outcome = journals.rebuild(why=why, progress=progress)
    done = "would be" if at.dry_run else "was" if outcome.finished else "will be"
    at.answered(outcome, f"The copy of {outcome.topic} {done} made anew, of {counted(outcome.records, 'record')}.")
    if not at.dry_run and not outcome.finished:
        at.note(f"No replicator runs here. The next one does it: {at.command('journal replicate')}")


@command("yes", "dry_run", example="headwater journal expire bank --dry-run")
def expire(topic: JournalTopic, at: At, fail_empty: FailEmpty = False) -> None:
    """Remove the copied journals whose day has come, UTC. A replicator does so once a day."""
    with topic_at(at, topic, changes=True) as journals:
        outcome = journals.expire(dry_run=True)
        if outcome.journals and not at.dry_run:
            if not agreed(f"Remove {counted(len(outcome.journals), 'journal')} of {outcome.topic}?", yes=at.yes):
                raise typer.Exit(1)
            outcome = journals.expire()
    if at.json:
        print_json(outcome)
    elif outcome.journals:
        columns = (Column("id"), Column("expired on"), Column("last", True), Column("removed"))
        rows = [
            (journal.id, journal.expire_on.isoformat(), str(journal.seq_nr), "yes" if journal.purged else "no")
            for journal in outcome.journals
        ]
        print_table(columns, rows)
    else:
        at.note("No journal has expired.")
    if fail_empty and not outcome.journals:
        raise typer.Exit(NOTHING_FOUND)


@command("dry_run", example="headwater journal dead bank quarantine 0 17 --why 'written by a test'")
def dead(
    topic: JournalTopic,
    verb: Annotated[
        Literal["list", "show", "retry", "drop", "quarantine"],
        typer.Argument(metavar="list|show|retry|drop|quarantine", help="What to do.", show_default=False),
    ],
    at: At,
    partition: Annotated[int | None, typer.Argument(metavar="PARTITION", help="The record's partition.", show_default=False)] = None,
    offset: Annotated[int | None, typer.Argument(metavar="OFFSET", help="The record's offset.", show_default=False)] = None,
    snapshots: Annotated[bool, typer.Option("--snapshots", help="A record of the topic of snapshots.")] = False,
    why: Why = "",
) -> None:
    """Handle records that cannot be decoded: list them, show one, count it again, or leave it out (drop, or quarantine)."""
    if verb == "list":
        if partition is not None:
            raise UsageMistake("dead list takes no record.", hint="Leave it out, or see --help for what takes it.")
        _list(topic, at)
        return
    if partition is None or offset is None:
        raise UsageMistake("Which record?", hint=f"Name its partition and offset; list them with `headwater journal dead {topic} list`.")
    place = f"offset {offset} of partition {partition}"
    with topic_at(at, topic, changes=verb != "show") as journals:
        if verb == "show":
            dead_record = journals.dead_show(partition, offset, snapshots=snapshots)
        elif verb in ("drop", "quarantine"):
            left = journals.dead_quarantine(partition, offset, why=why, snapshots=snapshots, dry_run=at.dry_run)
            at.answered(left, f"The record at {place} {'would be' if at.dry_run else 'is'} left out: {visible(left.error)}")
            return
        else:
            done = journals.dead_retry(partition, offset, why=why, snapshots=snapshots, dry_run=at.dry_run)
            effect = "and the copy of its partition is made anew" if done.rebuilds else "it was never left out"
            at.answered(done, f"The record at {place} {'would count' if at.dry_run else 'counts'} again: {effect}.")
            return
    if at.json:
        print_json(dead_record)
        return
    for name, value in (*dead_record.record.items(), ("error", dead_record.error or "none: it can be decoded")):
        if value not in (None, "", [], {}):
            typer.echo(f"{name:<12}{visible(cell(value))}")


def _list(topic: str, at: At) -> None:
    with topic_at(at, topic) as journals:
        records = journals.dead()
    if at.json:
        print_json(records)
    elif records:
        columns = (Column("partition", True), Column("offset", True), Column("state"), Column("since"), Column("error"))
        rows = [
            (
                str(record.partition),
                f"{record.offset}{_of_snapshots(record)}",
                "left out" if record.quarantined else "stops",
                time_cell(record.at),
                record.error,
            )
            for record in records
        ]
        print_table(columns, rows)
        stops = next((record for record in records if not record.quarantined), None)
        if stops is not None:
            words = f"journal dead {topic} quarantine {stops.partition} {stops.offset}{_of_snapshots(stops)} --why TEXT"
            at.note(f"Its partition waits. Leave the record out: {at.command(words)}")
    else:
        at.note("No record is dead.")


def _of_snapshots(dead: ShownDead) -> str:
    """The option that tells a record of snapshots from one of journals with the same offset."""
    return " --snapshots" if dead.topic.startswith(SNAPSHOTS) else ""
