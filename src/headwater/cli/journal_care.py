"""`headwater journal verify | rebuild | expire | dead`: the care of the copies in the store."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_options import NOTHING_FOUND, FailEmpty, JournalTopic, cell, time_cell, topic_at
from headwater.cli.output import Column, agreed, counted, print_json, print_table, visible
from headwater.cli.usage import UsageMistake

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, which the audit keeps.", show_default=False)]


@command(example="headwater journal verify bank")
def verify(topic: JournalTopic, at: At) -> None:
    """Compare the copy of a topic's journals with what the log says. A difference is exit code 8."""
    with topic_at(at, topic) as journals:
        found = journals.verify()
    at.answered(
        found,
        f"verify: equal. {counted(found.records, 'record')} of {found.topic} {'makes' if found.records == 1 else 'make'} "
        f"{counted(found.journals, 'journal')} with "
        f"{counted(found.events, 'event')}, as the store has them.",
    )


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
        Literal["list", "show", "quarantine", "retry"],
        typer.Argument(metavar="list|show|quarantine|retry", help="What to do.", show_default=False),
    ],
    at: At,
    partition: Annotated[int | None, typer.Argument(metavar="PARTITION", help="The record's partition.", show_default=False)] = None,
    offset: Annotated[int | None, typer.Argument(metavar="OFFSET", help="The record's offset.", show_default=False)] = None,
    why: Why = "",
) -> None:
    """Handle records that cannot be decoded: list them, show one, leave it out, or count it again."""
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
            found = journals.dead_show(partition, offset)
        elif verb == "quarantine":
            left = journals.dead_quarantine(partition, offset, why=why, dry_run=at.dry_run)
            at.answered(left, f"The record at {place} {'would be' if at.dry_run else 'is'} left out: {visible(left.error)}")
            return
        else:
            done = journals.dead_retry(partition, offset, why=why, dry_run=at.dry_run)
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
            (str(one.partition), str(one.offset), "left out" if one.quarantined else "stops", time_cell(one.at), one.error) for one in found
        ]
        print_table(columns, rows)
        stops = next((one for one in found if not one.quarantined), None)
        if stops is not None:
            words = f"journal dead {topic} quarantine {stops.partition} {stops.offset} --why TEXT"
            at.note(f"Its partition waits. Leave the record out: {at.command(words)}")
    else:
        at.note("No record is dead.")
