"""`headwater doc get | list | query | explain | history | feed`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.doc_options import NOTHING_FOUND, CollectionPath, DocPath, FailEmpty, Filter, Sort, json_text, resource_at
from headwater.cli.output import Column, counted, print_json, print_json_line, print_table, visible
from headwater.wire.times import read_time, show_time

if TYPE_CHECKING:
    from headwater.client.document_value import DocumentChange

_SHOWN = 100  # items and changes unless --size or --limit says more
_BODY = 60  # characters of a body in a table


@command(example="headwater doc get shop/catalogue~/hat")
def get(
    path: DocPath,
    at: At,
    revision: Annotated[
        int | None, typer.Option("--revision", metavar="N", min=1, help="As it was at this revision.", show_default=False)
    ] = None,
    time: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="As it was then: ISO 8601, or milliseconds.", show_default=False)
    ] = None,
) -> None:
    """Print a document or an item as it is, or the first page of a collection. With `--json` with its revision and etag."""
    with resource_at(at, path) as resource:
        document = resource.get(revision=revision, at=None if time is None else _time(time))
    if at.json:
        print_json(document)
    else:
        print_json(document.body)


@command(name="list", example="headwater doc list shop/")
def list_documents(
    at: At,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Only paths that begin so.", show_default=False, autocompletion=completion.prefixes)
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The most to show; with --json all.")] = 1000,
    fail_empty: FailEmpty = False,
) -> None:
    """List documents and collections by path. With `--json` one object a line."""
    shown, more = 0, False
    rows = []
    with at.door() as hw:
        for entry in hw.documents.list(prefix):
            if at.json:
                print_json_line(entry)
            elif shown == limit:
                more = True
                break
            else:
                rows.append((entry.path, str(entry.revision), _when(entry.modified)))
            shown += 1
    if rows:
        print_table((Column("path"), Column("revision", True), Column("modified")), rows)
    at.note(f"{counted(shown, 'path')}.{' There are more; --limit N shows them.' if more else ''}")
    if fail_empty and not shown:
        raise typer.Exit(NOTHING_FOUND)


@command(example="headwater doc query shop/catalogue~ --filter 'price > 10' --sort price:desc")
def query(
    path: CollectionPath,
    at: At,
    filter: Filter = None,
    sort: Sort = None,
    size: Annotated[
        int | None, typer.Option("--size", metavar="N", min=1, help=f"The most items; {_SHOWN} unless given, with --json all.")
    ] = None,
    skip_max: Annotated[
        int | None, typer.Option("--skip-max", metavar="N", min=0, help="The most items that are read and not shown.", show_default=False)
    ] = None,
    fail_empty: FailEmpty = False,
) -> None:
    """Print the items of a collection that fulfil a filter, one a line."""
    shown = 0
    most = size if size is not None or at.json else _SHOWN
    with resource_at(at, path) as resource:
        for item in resource.query(filter, sort=sort, size=most, skip_max=skip_max):
            print_json_line(item) if at.json else typer.echo(visible(json_text(item)))
            shown += 1
    at.note(f"{counted(shown, 'item')}.{' --size N shows more.' if size is None and shown == most else ''}")
    if fail_empty and not shown:
        raise typer.Exit(NOTHING_FOUND)


@command(example="headwater doc explain shop/catalogue~ --filter 'price > 10'")
def explain(
    path: CollectionPath,
    at: At,
    filter: Filter = None,
    sort: Sort = None,
    size: Annotated[int | None, typer.Option("--size", metavar="N", min=1, help="The most items.", show_default=False)] = None,
) -> None:
    """Print how a query is done: the index that it uses, how many items it reads, what is left of its budget."""
    with resource_at(at, path) as resource:
        plan = resource.explain(filter, sort=sort, size=size)
    if at.json or not isinstance(plan, dict):
        print_json(plan)
        return
    width = max(map(len, plan), default=0) + 2
    for name, value in plan.items():
        typer.echo(f"{name:<{width}}{visible(value if isinstance(value, str) else json_text(value))}")


@command(example="headwater doc history shop/settings --reverse --limit 5")
def history(
    path: DocPath,
    at: At,
    after: Annotated[
        int | None, typer.Option("--after", metavar="N", min=0, help="Only behind this revision; with --reverse before it.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="The newest first.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help=f"The most changes; {_SHOWN} unless given.")] = None,
) -> None:
    """Print the changes of a document, a collection or an item that the log keeps. With `--json` one object a line."""
    shown, more = 0, False
    rows: list[tuple[str, ...]] = []
    most = limit or (None if at.json else _SHOWN)
    with resource_at(at, path) as resource:
        for change in resource.history(after=after, reverse=reverse):
            if shown == most:
                more = True
                break
            shown += 1
            if at.json:
                print_json_line(_shown(change))
            else:
                rows.append((str(change.revision), _when(change.time), change.method or change.kind, change.path, _short(change.body)))
    if rows:
        print_table((Column("revision", True), Column("time"), Column("method"), Column("path"), Column("body")), rows)
    at.note(f"{counted(shown, 'change')}.{' There are more; --limit N shows them.' if more else ''}")


@command(example="headwater doc feed shop/catalogue~ --snapshot")
def feed(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A document, collection or item, or a prefix that ends with /; / is all.",
            show_default=False,
            autocompletion=completion.documents,
        ),
    ],
    at: At,
    after: Annotated[
        str | None, typer.Option("--after", metavar="POSITION", help="Go on behind this revision or position; else only what comes.")
    ] = None,
    snapshot: Annotated[bool, typer.Option("--snapshot", help="Print the state first.")] = False,
    filter: Filter = None,
    most: Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="End after so many events.")] = None,
) -> None:
    """Print the changes of a path as they come, until Ctrl-C. With `--json` one object a line."""
    from headwater.documents.path import parse_path

    if path != "/":
        parse_path(path.removesuffix("/"))
    seen = 0
    with at.door() as hw, suppress(KeyboardInterrupt):  # Ctrl-C and SIGTERM are how it ends
        changes = (
            hw.documents.feed(path, after, snapshot=snapshot)
            if path.endswith("/")
            else hw.documents[path].feed(after, snapshot=snapshot, filter=filter)
        )
        for change in changes:
            if at.json:
                print_json_line(_shown(change))
            else:
                action = f"{change.kind}:{change.method}" if change.method else change.kind
                cells = (_when(change.time), str(change.revision), action, change.path, _short(change.body))
                sys.stdout.write("  ".join(visible(word) for word in cells if word) + "\n")
            sys.stdout.flush()
            seen += 1
            if seen == most:
                break


def _shown(change: DocumentChange) -> dict[str, Any]:
    """A change as JSON, without what it does not have."""
    fields: dict[str, Any] = {name: getattr(change, name) for name in change.__struct_fields__}
    fields["time"] = show_time(change.time) if change.time else None
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _when(time: int | str | None) -> str:
    return str(show_time(time) if isinstance(time, int) else time)[:19].replace("T", " ") if time else ""


def _short(body: Any) -> str:
    text = "" if body is None else json_text(body)
    return text if len(text) <= _BODY else f"{text[: _BODY - 1]}…"


def _time(written: str) -> int:
    return read_time(int(written) if written.isdecimal() else written)
