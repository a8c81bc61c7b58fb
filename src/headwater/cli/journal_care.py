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
        found = journals.stats()
    if at.json:
        print_json(found)
        return
    names = ("partition", "journals", "events", "bytes", "records", "lag", "forks", "gaps", "deleted", "expired")
    rows = [
        (p.partition, p.journals, p.events, p.payload_bytes, p.records, p.lag, p.forks, p.gaps, p.deleted, p.expired)
        for p in found.partitions
    ]
    total = ["all", *map(sum, list(zip(*rows, strict=True))[1:])]
    engine = {"here": "; the last round ran in the replicator", "spark": "; the last round ran on Spark"}.get(found.engine or "", "")
    oldest = max(p.lag_seconds for p in found.partitions)
    behind = f"; the oldest record that it lacks is {oldest:.1f} s old" if oldest else ""
    typer.echo(f"Topic {found.topic}: copied into {found.store}{engine}{behind}.")
    print_table([Column(name, True) for name in names], [tuple(map(str, row)) for row in [*rows, total]])


@command(example="headwater journal forks bank")
def forks(topic: JournalTopic, at: At, fail_empty: FailEmpty = False) -> None:
    """List the numbers of journals that several events have, as two writers make them, in the copy of a topic."""
    with topic_at(at, topic) as journals:
        found = journals.forks()
    if at.json:
        print_json(found)
    elif found.forks:
        columns = (Column("id"), Column("number", True), Column("partition", True), Column("offsets"))
        print_table(columns, [(one.id, str(one.seq_nr), str(one.partition), ", ".join(map(str, one.offsets))) for one in found.forks])
        at.note("There are more." if found.more else f"{counted(len(found.forks), 'fork')}.")
    else:
        at.note("No number has several events.")
    if fail_empty and not found.forks:
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
    with topic_at(at, topic) as journals, _progress(at) as told:
        found = journals.verify(progress=told)
    if found.waiting and not found.records:
        waits = f"{counted(found.waiting, 'record')} {'waits' if found.waiting == 1 else 'wait'}"
        text = f"verify: nothing of {found.topic} is copied yet: {waits}. Copy with `headwater journal replicate --once`."
        at.answered(found, text)
        return
    snapshots = f" and {counted(found.snapshots, 'snapshot')}" if found.snapshots else ""
    waiting = f" {counted(found.waiting, 'record')} more {'is' if found.waiting == 1 else 'are'} not copied yet." if found.waiting else ""
    at.answered(
        found,
        f"verify: equal. {counted(found.records, 'record')} of {found.topic} {'makes' if found.records == 1 else 'make'} "
        f"{counted(found.journals, 'journal')} with "
        f"{counted(found.events, 'event')}{snapshots}, as the store has them.{waiting}",
    )


@command("dry_run", example="headwater journal base bank")
def base(topic: JournalTopic, at: At) -> None:
    """Verify the copy of a topic's journals, and keep it as the base from which `rebuild` begins once the log is deleted."""
    with topic_at(at, topic, changes=True) as journals:
        found = journals.base(dry_run=at.dry_run)
    events, size = sum(one.events for one in found.partitions), sum(one.bytes for one in found.partitions)
    journals_held = sum(one.journals for one in found.partitions)
    would = f"would hold {counted(events, 'event')}" if at.dry_run else f"holds {counted(events, 'event')}, in {counted(size, 'byte')}"
    count = sum(one.snapshots for one in found.partitions)
    snapshots = f" and {counted(count, 'snapshot')}" if count else ""
    at.answered(found, f"verify: equal. The base of {found.topic} {would} of {counted(journals_held, 'journal')}{snapshots}.")


@command("yes", "dry_run", example="headwater journal rebuild bank --why 'new disk'")
def rebuild(topic: JournalTopic, at: At, why: Why = "") -> None:
    """Let the replicator make the copy of a topic's journals anew, from the beginning of the log. Reads stay right meanwhile."""
    with topic_at(at, topic, changes=True) as journals:
        found = journals.rebuild(why=why, dry_run=True)
        if not at.dry_run:
            asked = f"Make the copy of {found.topic} anew, of {counted(found.records, 'record')}?"
            if not agreed(asked, yes=at.yes):
                raise typer.Exit(1)
            found = journals.rebuild(why=why)
    would = "would be" if at.dry_run else "is"
    at.answered(found, f"The copy of {found.topic} {would} made anew, of {counted(found.records, 'record')}.")
    if not at.dry_run:
        at.note(f"The replicator does it. See how far it is: {at.command(f'journal status {topic}')}")


@command("yes", "dry_run", example="headwater journal expire bank --dry-run")
def expire(topic: JournalTopic, at: At, fail_empty: FailEmpty = False) -> None:
    """Remove the copied journals whose day has come, UTC. A replicator does so once a day."""
    with topic_at(at, topic, changes=True) as journals:
        found = journals.expire(dry_run=True)
        if found.journals and not at.dry_run:
            if not agreed(f"Remove {counted(len(found.journals), 'journal')} of {found.topic}?", yes=at.yes):
                raise typer.Exit(1)
            found = journals.expire()
    if at.json:
        print_json(found)
    elif found.journals:
        columns = (Column("id"), Column("expired on"), Column("last", True), Column("removed"))
        rows = [(one.id, one.expire_on.isoformat(), str(one.seq_nr), "yes" if one.purged else "no") for one in found.journals]
        print_table(columns, rows)
    else:
        at.note("No journal has expired.")
    if fail_empty and not found.journals:
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
            found = journals.dead_show(partition, offset, snapshots=snapshots)
        elif verb in ("drop", "quarantine"):
            left = journals.dead_quarantine(partition, offset, why=why, snapshots=snapshots, dry_run=at.dry_run)
            at.answered(left, f"The record at {place} {'would be' if at.dry_run else 'is'} left out: {visible(left.error)}")
            return
        else:
            done = journals.dead_retry(partition, offset, why=why, snapshots=snapshots, dry_run=at.dry_run)
            said = "and the copy of its partition is made anew" if done.rebuilds else "it was never left out"
            at.answered(done, f"The record at {place} {'would count' if at.dry_run else 'counts'} again: {said}.")
            return
    if at.json:
        print_json(found)
        return
    for name, value in (*found.record.items(), ("error", found.error or "none: it can be decoded")):
        if value not in (None, "", [], {}):
            typer.echo(f"{name:<12}{visible(cell(value))}")


def _list(topic: str, at: At) -> None:
    with topic_at(at, topic) as journals:
        found = journals.dead()
    if at.json:
        print_json(found)
    elif found:
        columns = (Column("partition", True), Column("offset", True), Column("state"), Column("since"), Column("error"))
        rows = [
            (
                str(one.partition),
                f"{one.offset}{_of_snapshots(one)}",
                "left out" if one.quarantined else "stops",
                time_cell(one.at),
                one.error,
            )
            for one in found
        ]
        print_table(columns, rows)
        stops = next((one for one in found if not one.quarantined), None)
        if stops is not None:
            words = f"journal dead {topic} quarantine {stops.partition} {stops.offset}{_of_snapshots(stops)} --why TEXT"
            at.note(f"Its partition waits. Leave the record out: {at.command(words)}")
    else:
        at.note("No record is dead.")


def _of_snapshots(dead: ShownDead) -> str:
    """The option that tells a record of snapshots from one of journals with the same offset."""
    return " --snapshots" if dead.topic.startswith(SNAPSHOTS) else ""
