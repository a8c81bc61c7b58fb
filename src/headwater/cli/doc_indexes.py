"""`headwater doc index | view`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.doc_options import CollectionPath, Filter, resource_at
from headwater.cli.output import Column, count, print_json, print_table
from headwater.cli.usage import UsageMistake
from headwater.documents.answers import HyperStorageIndex


@command("dry_run", example="headwater doc index create shop/catalogue~ by-price --sort=-price:decimal --filter 'price > 0'")
def index(
    verb: Annotated[
        Literal["create", "list", "show", "drop"],
        typer.Argument(metavar="create|list|show|drop", help="What to do.", show_default=False),
    ],
    path: CollectionPath,
    at: At,
    id: Annotated[
        str | None, typer.Argument(metavar="INDEX", help="The id of the index.", show_default=False, autocompletion=completion.indexes)
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="FIELDS", help="Of `create`: its order, such as price:decimal,name or --sort=-price:decimal.")
    ] = "",
    filter: Filter = None,
    materialize: Annotated[bool, typer.Option("--materialize", help="Of `create`: keep copies of the items in it.")] = False,
) -> None:
    """Make an index of a collection, list its indexes, show one, or drop one."""
    if verb in ("show", "drop") and id is None:
        raise UsageMistake("Which index?", hint=f"List them with `headwater doc index list {path}`.")
    if verb == "list" and id is not None:
        raise UsageMistake("index list takes no index.", hint=f"Show one with `headwater doc index show {path} {id}`.")
    if verb != "create" and (sort or filter or materialize):
        raise UsageMistake(f"index {verb} takes no --sort, --filter and --materialize.", hint="They are of `index create`.")
    with resource_at(at, path, changes=verb in ("create", "drop")) as resource:
        if verb == "create":
            made = resource.indexes.create(id, sort=sort, filter=filter, materialize=materialize, dry_run=at.dry_run)
            says = "would be made" if at.dry_run else "is being built"
            at.answered(made, f"The index {made.index} of {made.path} {says}.")
            if not at.dry_run:
                at.note(f"See how far it is: {at.command(f'doc index show {path} {made.index}')}")
        elif verb == "list":
            _list(at, path, list(resource.indexes.list()))
        elif verb == "show":
            assert id is not None
            print_json(resource.indexes.status(id)) if at.json else _list(at, path, [resource.indexes.status(id)])
        else:
            assert id is not None
            resource.indexes.drop(id, dry_run=at.dry_run)
            says = "would be dropped" if at.dry_run else "is dropped"
            at.answered({"index": id, "path": path, "dry_run": at.dry_run}, f"The index {id} of {path} {says}.")


@command("dry_run", example="headwater doc view put cheap~ 'shop/catalogue~/{*}' --filter 'price < 10'")
def view(
    verb: Annotated[
        Literal["put", "list", "show", "delete"],
        typer.Argument(metavar="put|list|show|delete", help="What to do.", show_default=False),
    ],
    at: At,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="The view, such as cheap~.", show_default=False, autocompletion=completion.views)
    ] = None,
    template: Annotated[
        str | None, typer.Argument(metavar="TEMPLATE", help="Of `put`: what it mirrors; {*} is one segment.", show_default=False)
    ] = None,
    filter: Filter = None,
) -> None:
    """Make a view, a collection that mirrors documents and items; list the views, show one, or end one."""
    if (path is None) != (verb == "list"):
        raise UsageMistake("Which view?" if path is None else "view list takes no view.", hint="List them with `headwater doc view list`.")
    if (template is None) != (verb != "put"):
        raise UsageMistake(
            "What does it mirror?" if template is None else f"view {verb} takes no template.",
            hint="Write such as `headwater doc view put cheap~ 'shop/{*}'`.",
        )
    with at.door(changes=verb in ("put", "delete")) as hw:
        views = hw.documents.views
        if verb == "list":
            entries = views.list()
            if at.json:
                print_json(entries)
            elif entries:
                columns = (Column("path"), Column("template"), Column("filter"))
                print_table(columns, [(entry.path, entry.template_uri, entry.filter) for entry in entries])
            else:
                at.note("There are no views.")
            return
        assert path is not None
        if verb == "delete":
            views.delete(path, dry_run=at.dry_run)
            says = "would end" if at.dry_run else "has ended"
            at.answered({"path": path, "dry_run": at.dry_run}, f"The view {path} {says}.")
            return
        shown = views.get(path) if verb == "show" else views.put(path, template or "", filter=filter or "", dry_run=at.dry_run)
    wanted = f" where {shown.filter}" if shown.filter else ""
    would = "would mirror" if at.dry_run else "mirrors"
    at.answered(shown, f"The view {shown.path} {would} {shown.template_uri}{wanted}.")


def _list(at: At, path: str, indexes: list[HyperStorageIndex]) -> None:
    if at.json:
        print_json(indexes)
        return
    if not indexes:
        at.note(f"{path} has no indexes. `{at.command(f'doc index create {path} ID --sort FIELD')}` makes one.")
        return
    columns = (Column("index"), Column("status"), Column("rows", True), Column("sort"), Column("filter"), Column("unlike", True))
    print_table(columns, [_row(entry) for entry in indexes])
    for shown in indexes:
        if shown.error:
            at.note(f"{shown.index_id}: {shown.error}")


def _row(entry: HyperStorageIndex) -> tuple[str, ...]:
    order = ",".join(f"{'-' if field.order == 'desc' else ''}{field.field_name}:{field.field_type}" for field in entry.sort_by) or "id"
    return entry.index_id, entry.status, count(entry.rows), order, entry.filter_by, count(entry.unlike)
