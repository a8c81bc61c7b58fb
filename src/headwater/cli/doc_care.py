"""`headwater doc export | import | transactions | trail | status | verify | rebuild`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.doc_options import DocPath
from headwater.cli.output import Column, agreed, count, counted, print_json, print_table, visible
from headwater.core.errors import BadInput, HeadwaterError, NotFound

if TYPE_CHECKING:
    from headwater.client.blocking import Blocking
    from headwater.documents.answers import HyperStorageTransaction
    from headwater.documents.requests import BatchLine

_AT_ONCE = 500  # writes of one request


@command(example="headwater doc export shop/ --to shop.ndjson")
def export(
    at: At,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Only paths that begin so.", show_default=False, autocompletion=completion.prefixes)
    ] = "",
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write to a file, which appears when it is whole.", show_default=False)
    ] = None,
) -> None:
    """Print documents and items as they are, one put a line, for `doc import`. Each collection is as it is when its turn comes."""
    from headwater.wire import json

    written = 0
    temporary = None if to is None else to.with_name(to.name + ".tmp")
    with ExitStack() as opened:
        stream: BinaryIO = sys.stdout.buffer if temporary is None else opened.enter_context(temporary.open("wb"))
        with at.door() as hw:
            for line in _exported(hw, prefix):
                stream.write(json.encode(line) + b"\n")
                written += 1
        stream.flush()
    if temporary is not None and to is not None:
        temporary.replace(to)
    at.note(f"{counted(written, 'document')}.")


@command("dry_run", example="headwater doc import shop.ndjson", name="import")
def import_(
    at: At,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Lines such as `doc export` has written; or standard input.", show_default=False),
    ] = None,
) -> None:
    """Do the writes of a file, one a line. A write that is refused is told with its line, and the others are done."""
    from headwater.documents.bodies import read_batch

    done = refused = number = 0
    with ExitStack() as opened:
        try:
            stream: BinaryIO = sys.stdin.buffer if file is None else opened.enter_context(file.open("rb"))
        except OSError as error:
            raise BadInput(
                f"{file} cannot be read: {error.strerror}.", hint="Name a file that `headwater doc export` has written."
            ) from None
        with at.door(changes=not at.dry_run, creates=not at.dry_run) as hw:
            for lines in _batches(stream):
                try:
                    writes = read_batch(b"".join(lines))
                except BadInput as error:
                    raise BadInput(f"Within lines {number + 1} to {number + len(lines)}: {error.message}", hint=error.hint) from None
                for place, outcome in enumerate(hw.documents.batch(writes) if not at.dry_run else map(_checked, writes), number + 1):
                    if isinstance(outcome, HeadwaterError):
                        refused += 1
                        at.warned(type(outcome)(f"Line {place}: {outcome.message}", hint=outcome.hint))
                    else:
                        done += 1
                number += len(lines)
    would = "would be" if at.dry_run else "is" if done == 1 else "are"
    at.answered(
        {"done": done, "refused": refused, "dry_run": at.dry_run},
        f"{counted(done, 'write')} {would} done{f', {count(refused)} refused' if refused else ''}.",
    )
    if refused:
        raise typer.Exit(5)


@command(example="headwater doc transactions --path shop/catalogue~ --state accepted")
def transactions(
    at: At,
    path: Annotated[
        str | None, typer.Option("--path", metavar="PATH", help="Only of this document or collection.", autocompletion=completion.prefixes)
    ] = None,
    state: Annotated[
        Literal["accepted", "applied", "indexed", "published"] | None,
        typer.Option("--state", help="accepted: only those that the store lacks; another: only those that it has."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The most to show.")] = 100,
) -> None:
    """List transactions, the newest first: which the log has, and which of them the store has, too."""
    with at.door() as hw:
        found = hw.documents.transactions(path, state=state, limit=limit)
    if at.json:
        print_json(found)
    elif found:
        _table(found)
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
        found = hw.documents.status()
    if at.json:
        print_json(found)
        return
    if not found.created:
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
    rows = [(str(one.partition), one.state, count(one.end), count(one.applied), count(one.lag), one.owner) for one in found.partitions]
    print_table(columns, rows)


@command()
def verify(at: At) -> None:
    """Compare the store of documents with what the log says. A difference is exit code 8."""
    with at.door() as hw:
        found = hw.documents.verify()
    at.answered(
        found,
        f"verify: equal. {counted(found.records, 'record')} {'makes' if found.records == 1 else 'make'} "
        f"{counted(found.rows, 'document')} and {counted(found.index_rows, 'row')} of indexes, as the store has them.",
    )


@command("yes", "dry_run", example="headwater doc rebuild --why 'new disk'")
def rebuild(at: At, why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit.")] = "") -> None:
    """Make the store of documents anew from the log."""
    with at.door(changes=True) as hw:
        found = hw.documents.rebuild(why=why, dry_run=True)
        if not at.dry_run:
            if not agreed(f"Make the store of documents anew, of {counted(found.records, 'record')}?", yes=at.yes):
                raise typer.Exit(1)
            found = hw.documents.rebuild(why=why)
    would = "would be" if at.dry_run else "is"
    at.answered(found, f"The store of documents {would} made anew, of {counted(found.records, 'record')}.")


def _exported(hw: Blocking, prefix: str) -> Iterator[BatchLine]:
    import msgspec

    from headwater.documents.requests import BatchLine

    for one in hw.documents.list(prefix):
        try:
            if not one.path.endswith("~"):
                body = hw.documents[one.path].get(type=msgspec.Raw).body
                yield BatchLine(method="put", path=one.path, body=body)
                continue
            for item in hw.documents[one.path].query(type=dict):
                yield BatchLine(method="put", path=f"{one.path}/{item['id']}", body=msgspec.Raw(_encoded(item)))
        except NotFound:  # deleted since it was listed
            continue


def _encoded(item: object) -> bytes:
    from headwater.wire import json

    return json.encode(item)


def _checked(write: BatchLine) -> HeadwaterError | None:
    try:
        write.draft()
    except HeadwaterError as error:
        return error
    return None


def _batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for line in stream:
        batch.append(line if line.endswith(b"\n") else line + b"\n")
        if len(batch) >= _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
