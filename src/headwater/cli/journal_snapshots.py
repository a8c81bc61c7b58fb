"""`headwater journal snapshot`: what the events of a journal have made of an entity, up to a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_appending import json_word
from headwater.cli.journal_options import NOTHING_FOUND, FailEmpty, JournalId, JournalTopic, cell, journal_at, time_cell
from headwater.cli.output import Column, agreed, counted, print_json, print_table, visible
from headwater.cli.usage import UsageMistake

if TYPE_CHECKING:
    from headwater.client.blocking import BlockingJournalSnapshots
    from headwater.journal.snapshot_shown import SnapshotRecord

_BOUNDS = ("min_seq_nr", "max_seq_nr", "min_timestamp", "max_timestamp")


def _bound(option: str, what: str, metavar: str) -> Any:
    return typer.Option(option, metavar=metavar, help=what, show_default=False)


@command("yes", "dry_run", example="headwater journal snapshot save bank alice '{\"eur\": 50}'")
def snapshot(
    verb: Annotated[
        Literal["save", "load", "list", "delete"],
        typer.Argument(metavar="save|load|list|delete", help="What to do.", show_default=False),
    ],
    topic: JournalTopic,
    id: JournalId,
    at: At,
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="Of `save`: JSON, or text.", show_default=False)] = None,
    seq_nr: Annotated[
        int | None, _bound("--seq-nr", "`save`: the event up to which it holds, else the last. `delete`: the one of this number.", "N")
    ] = None,
    format: Annotated[Literal["json", "text"], typer.Option("--format", help="What PAYLOAD is.")] = "json",
    min_seq_nr: Annotated[int | None, _bound("--min-seq-nr", "Only those of this number or above it.", "N")] = None,
    max_seq_nr: Annotated[int | None, _bound("--max-seq-nr", "Only those of this number or below it.", "N")] = None,
    min_timestamp: Annotated[str | None, _bound("--min-timestamp", "Only those saved then or later.", "TIME")] = None,
    max_timestamp: Annotated[str | None, _bound("--max-timestamp", "Only those saved then or earlier.", "TIME")] = None,
    fail_empty: FailEmpty = False,
) -> None:
    """Save a snapshot of a journal, load the newest one, list them, or delete some. TIME is ISO 8601 or milliseconds."""
    bounds = dict(zip(_BOUNDS, (min_seq_nr, max_seq_nr, _time(min_timestamp), _time(max_timestamp)), strict=True))
    selection = {name: value for name, value in bounds.items() if value is not None}
    if (verb == "save") != (payload is not None):
        message = "What is to be saved?" if payload is None else f"`snapshot {verb}` takes no payload."
        raise UsageMistake(message, hint="Write such as `headwater journal snapshot save bank alice '{\"eur\": 50}'`.")
    if verb == "save" and selection:
        raise UsageMistake("`snapshot save` takes no bounds.", hint="Give --seq-nr alone, or nothing.")
    if verb in ("load", "list") and seq_nr is not None:
        raise UsageMistake(f"`snapshot {verb}` takes no --seq-nr.", hint=f"Write --min-seq-nr {seq_nr} --max-seq-nr {seq_nr}.")
    with journal_at(at, topic, id, changes=verb in ("save", "delete")) as journal:
        if verb == "save":
            assert payload is not None
            _save(journal.snapshots, at, payload if format == "text" else json_word(payload, "PAYLOAD"), seq_nr, id)
        elif verb == "delete":
            _delete(journal.snapshots, at, seq_nr, selection, id)
        elif verb == "load":
            record = journal.snapshots.load(**selection)
            _show(record, at)
            if record is None and fail_empty:
                raise typer.Exit(NOTHING_FOUND)
        else:
            listed = journal.snapshots.list(**selection)
            _list(listed, at)
            if fail_empty and not listed:
                raise typer.Exit(NOTHING_FOUND)


def _save(snapshots: BlockingJournalSnapshots, at: At, payload: Any, seq_nr: int | None, id: str) -> None:
    if at.dry_run:
        raise UsageMistake("`snapshot save` has no --dry-run.", hint="Leave it out: a snapshot changes no event.")
    saved = snapshots.save(payload, seq_nr)
    at.answered(saved, f"The snapshot of {visible(id)} at event {saved.seq_nr}: partition {saved.partition}, offset {saved.offset}.")


def _delete(snapshots: BlockingJournalSnapshots, at: At, seq_nr: int | None, selection: dict[str, Any], id: str) -> None:
    outcome = snapshots.delete(seq_nr, **selection, dry_run=True)
    if outcome.deleted and not at.dry_run:
        if not agreed(f"Delete {counted(outcome.deleted, 'snapshot')} of journal {visible(id)}?", yes=at.yes):
            raise typer.Exit(1)
        outcome = snapshots.delete(seq_nr, **selection)
    would = "would be" if at.dry_run else "is" if outcome.deleted == 1 else "are"
    at.answered(outcome, f"{counted(outcome.deleted, 'snapshot')} of journal {visible(id)} {would} deleted.")


def _show(record: SnapshotRecord | None, at: At) -> None:
    if at.json:
        print_json(None if record is None else shown(record))
    elif record is None:
        at.note("No snapshot matches.")
    else:
        typer.echo(f"{record.seq_nr}  {visible(cell(record.payload if not isinstance(record.payload, bytes) else record.payload.hex()))}")


def _list(records: Any, at: At) -> None:
    if at.json:
        print_json([shown(record) for record in records])
    elif records:
        rows = [
            (str(record.seq_nr), time_cell(shown(record)["timestamp"]), record.origin or "-", record.version or "-") for record in records
        ]
        print_table((Column("event", True), Column("saved"), Column("by"), Column("version")), rows)
    else:
        at.note("There is no snapshot.")


def shown(snapshot: SnapshotRecord) -> dict[str, Any]:
    """A snapshot as JSON; the payload of a list is left out."""
    from headwater.log.json_form import show_bytes
    from headwater.wire.times import show_time

    payload = show_bytes(snapshot.payload, "binary") if isinstance(snapshot.payload, bytes) else snapshot.payload
    about = {"seq_nr": snapshot.seq_nr, "timestamp": show_time(snapshot.timestamp), "origin": snapshot.origin, "version": snapshot.version}
    return about if payload is None else {**about, "payload": payload}


def _time(written: str | None) -> int | None:
    from headwater.wire.times import read_time

    if written is None:
        return None
    return read_time(int(written) if written.isascii() and written.isdigit() else written)
