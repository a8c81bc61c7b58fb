"""`headwater journal create | delete | purge | mark`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_options import JournalId, JournalTopic, journal_at
from headwater.cli.output import agreed, counted, visible
from headwater.journal.cipher import USUAL
from headwater.journal.event import check_seq_nr
from headwater.log.record import check_topic_name

if TYPE_CHECKING:
    from headwater.journal.answers import ShownHead


@command("dry_run", example="headwater journal create bank --partitions 4")
def create(
    topic: JournalTopic,
    at: At,
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="N", min=0, help="How many partitions; 0: as the setting journal.partitions says.")
    ] = 0,
    cipher: Annotated[
        bool, typer.Option("--cipher", help="Encrypt the payloads of new events (aes-256-gcm), also of a topic that is there.")
    ] = False,
) -> None:
    """Create a topic of journals. One that is there stays as it is."""
    check_topic_name(topic)
    with at.door(changes=True, creates=not at.dry_run) as hw:
        made = hw.journals.create(topic, partitions=partitions, cipher=USUAL if cipher else "", dry_run=at.dry_run)
    what = ("would be created" if at.dry_run else "is created") if made.created else "is there"
    has = f", with {counted(made.partitions, 'partition')}" if made.partitions else ""
    sealed = f" Its new events are encrypted with {made.cipher}." if made.cipher else ""
    at.answered(made, f"Topic {made.topic} {what}{has}.{sealed}")
    if made.created and not at.dry_run:
        append = f'journal append {topic} ID \'{{"type": "opened"}}\''
        at.note(f"Append an event: {at.command(append)}")


@command("yes", "dry_run", example="headwater journal delete bank alice --to 2")
def delete(
    topic: JournalTopic,
    id: JournalId,
    at: At,
    to: Annotated[int, typer.Option("--to", metavar="N", help="The number of the last event to delete.", show_default=False)],
) -> None:
    """Delete the events of a journal up to a number, with it, for good. Later numbers stay as they are."""
    check_seq_nr(to, "number to delete to")
    with journal_at(at, topic, id, changes=True) as journal:
        head = journal.head()
        left = _below(head, to)
        if not at.dry_run and left and not agreed(f"Delete {counted(left, 'event')} of journal {visible(id)}?", yes=at.yes):
            raise typer.Exit(1)
        done = False if at.dry_run or head is None else journal.delete(to=to).done
    last = 0 if head is None else min(to, head.seq_nr)
    answer = {"id": id, "done": done, "events": left, "to": last, "dry_run": at.dry_run}
    if head is None:
        at.answered(answer, f"There is no journal {visible(id)}: nothing to delete.")
        return
    at.answered(
        answer, f"{counted(left, 'event')} {_is(left, at.dry_run)} deleted, up to number {last}. The next event is {head.seq_nr + 1}."
    )


@command("yes", "dry_run", example="headwater journal purge bank alice")
def purge(topic: JournalTopic, id: JournalId, at: At) -> None:
    """Remove a journal, for good. One that is appended to later begins at 1."""
    with journal_at(at, topic, id, changes=True) as journal:
        head = journal.head()
        left = _below(head, None)
        if not at.dry_run and head and not agreed(f"Remove journal {visible(id)} with {counted(left, 'event')}?", yes=at.yes):
            raise typer.Exit(1)
        done = False if at.dry_run or head is None else journal.purge().done
    answer = {"id": id, "done": done, "events": left, "dry_run": at.dry_run}
    if head is None:
        at.answered(answer, f"There is no journal {visible(id)}: nothing to remove.")
        return
    at.answered(answer, f"Journal {visible(id)} {'would be' if at.dry_run else 'is'} gone, with {counted(left, 'event')}.")


@command(example="headwater journal mark bank alice")
def mark(
    topic: JournalTopic,
    id: JournalId,
    at: At,
    mark: Annotated[
        str | None, typer.Option("--id", metavar="TEXT", help="The mark's own id; random unless given.", show_default=False)
    ] = None,
) -> None:
    """Put a mark into the partition of a journal. Whoever has read it has read everything before it."""
    with journal_at(at, topic, id, changes=True) as journal:
        placed = journal.mark(mark)
    at.answered(placed, f"The mark lies in partition {placed.partition} at offset {placed.offset}.")


def _below(head: ShownHead | None, to: int | None) -> int:
    """How many numbers are there, up to `to`."""
    if head is None:
        return 0
    return max(0, (head.seq_nr if to is None else min(to, head.seq_nr)) - head.delete_to)


def _is(count: int, dry_run: bool) -> str:
    return "would be" if dry_run else "is" if count == 1 else "are"
