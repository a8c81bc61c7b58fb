"""`headwater doc transactions | trail | status | verify | rebuild`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.doc_options import DocPath
from headwater.cli.output import Column, agreed, count, counted, print_json, print_table, visible

if TYPE_CHECKING:
    from headwater.documents.answers import HyperStorageTransaction


@command(example="headwater doc transactions --path shop/catalogue~ --state accepted")
def transactions(
    at: At,
    path: Annotated[
        str | None, typer.Option("--path", metavar="PATH", help="Only of this document or collection.", autocompletion=completion.prefixes)
    ] = None,
    state: Annotated[
        Literal["accepted", "applied", "indexed", "published"] | None,
        typer.Option("--state", help="accepted: only those that the store lacks; another: only those of the newest that it has."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The most to show.")] = 100,
) -> None:
    """List transactions, the newest first: which the log has, and which of them the store has, too."""
    with at.door() as hw:
        entries = hw.documents.transactions(path, state=state, limit=limit)
    if at.json:
        print_json(entries)
    elif entries:
        _table(entries)
    else:
        at.note("There are none.")


@command(example="headwater doc trail shop/catalogue~")
def trail(
    path: DocPath,
    at: At,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The most transactions.")] = 100,
) -> None:
    """Show a document or a collection on its way: its newest transactions in the log, what the store has, and how far it lags behind."""
    with at.door() as hw:
        shown = hw.documents.trail(path, limit=limit)
    if at.json:
        print_json(shown)
        return
    if shown.transactions:
        _table(shown.transactions)
    else:
        at.note(f"The log has nothing of {visible(path)}.")
    stored = f"revision {shown.revision}{', deleted' if shown.deleted else ''}" if shown.revision else "nothing of it"
    typer.echo(f"The store holds {stored}.")
    typer.echo(f"Partition {shown.partition} ends before offset {shown.end}; the store has what is below {shown.applied}.")


def _table(transactions: Sequence[HyperStorageTransaction]) -> None:
    columns = (Column("transaction"), Column("path"), Column("revision", True), Column("state"), Column("place"))
    rows = [
        (shown.transaction, shown.path, str(shown.revision), shown.state, f"{shown.partition}/{shown.offset}") for shown in transactions
    ]
    print_table(columns, rows)


@command()
def status(at: At) -> None:
    """Show the partitions of documents: who owns them, how far the store is, what waits."""
    with at.door() as hw:
        report = hw.documents.status()
    if at.json:
        print_json(report)
        return
    if not report.created:
        at.note(f"There are no documents. `{at.command('doc put PATH BODY')}` makes the first.")
        return
    columns = (
        Column("partition", True),
        Column("state"),
        Column("end", True),
        Column("applied", True),
        Column("lag", True),
        Column("owner"),
    )
    rows = [
        (str(partition.partition), partition.state, count(partition.end), count(partition.applied), count(partition.lag), partition.owner)
        for partition in report.partitions
    ]
    print_table(columns, rows)


@command()
def verify(at: At) -> None:
    """Compare the store of documents with what the log says. A difference is exit code 8."""
    with at.door() as hw:
        report = hw.documents.verify()
    at.answered(
        report,
        f"verify: equal. {counted(report.records, 'record')} {'makes' if report.records == 1 else 'make'} "
        f"{counted(report.rows, 'document')} and {counted(report.index_rows, 'row')} of indexes, as the store has them.",
    )


@command("yes", "dry_run", example="headwater doc rebuild --why 'new disk'")
def rebuild(at: At, why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit.")] = "") -> None:
    """Make the store of documents anew from the log."""
    with at.door(changes=True) as hw:
        outcome = hw.documents.rebuild(why=why, dry_run=True)
        if not at.dry_run:
            if not agreed(f"Make the store of documents anew, of {counted(outcome.records, 'record')}?", yes=at.yes):
                raise typer.Exit(1)
            outcome = hw.documents.rebuild(why=why)
    would = "would be" if at.dry_run else "is"
    at.answered(outcome, f"The store of documents {would} made anew, of {counted(outcome.records, 'record')}.")
