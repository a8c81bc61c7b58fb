"""`headwater doc template`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.doc_options import Filter
from headwater.cli.output import Column, print_json, print_table
from headwater.cli.usage import UsageMistake
from headwater.documents.template_requests import ShownTemplate


@command("dry_run", example="headwater doc template put by-price 'shop/*~' --sort=-price:decimal")
def template(
    verb: Annotated[
        Literal["put", "list", "show", "delete"],
        typer.Argument(metavar="put|list|show|delete", help="What to do.", show_default=False),
    ],
    at: At,
    id: Annotated[str | None, typer.Argument(metavar="INDEX", help="The id of the template and its indexes.", show_default=False)] = None,
    path: Annotated[
        str | None,
        typer.Argument(metavar="TEMPLATE", help="Of `put`: the path of collections; * is any but a slash.", show_default=False),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="FIELDS", help="Of `put`: the order, such as price:decimal,name or --sort=-price:decimal.")
    ] = "",
    filter: Filter = None,
    materialize: Annotated[bool, typer.Option("--materialize", help="Of `put`: keep copies of the items in the indexes.")] = False,
) -> None:
    """Give every collection whose path fits a template an index; list the templates, show one, or take one away."""
    if (id is None) != (verb == "list"):
        raise UsageMistake(
            "Which template?" if id is None else "template list takes no template.", hint="List them with `headwater doc template list`."
        )
    if (path is None) != (verb != "put"):
        raise UsageMistake(
            "Which collections?" if path is None else f"template {verb} takes no path.",
            hint="Write such as `headwater doc template put by-price 'shop/*~' --sort price:decimal`.",
        )
    if verb != "put" and (sort or filter or materialize):
        raise UsageMistake(f"template {verb} takes no --sort, --filter and --materialize.", hint="They are of `template put`.")
    with at.door(changes=verb in ("put", "delete")) as hw:
        templates = hw.documents.templates
        if verb == "list":
            _list(at, list(templates.list()))
            return
        assert id is not None
        if verb == "delete":
            templates.delete(id, dry_run=at.dry_run)
            says = "would be gone" if at.dry_run else "is gone; the indexes that it made stay"
            at.answered({"index": id, "dry_run": at.dry_run}, f"The template {id} {says}.")
        elif verb == "show":
            shown = templates.get(id)
            print_json(shown) if at.json else _list(at, [shown])
        else:
            made = templates.put(id, path or "", sort=sort, filter=filter, materialize=materialize, dry_run=at.dry_run)
            says = "would get" if at.dry_run else "gets"
            at.answered(made, f"Every collection {made.template_uri} {says} the index {made.index_id}.")


def _list(at: At, templates: list[ShownTemplate]) -> None:
    if at.json:
        print_json(templates)
    elif templates:
        columns = (Column("template"), Column("collections"), Column("sort"), Column("filter"))
        print_table(columns, [(entry.index_id, entry.template_uri, _order(entry), entry.filter_by) for entry in templates])
    else:
        at.note("There are no templates.")


def _order(entry: ShownTemplate) -> str:
    return ",".join(f"{'-' if field.order == 'desc' else ''}{field.field_name}:{field.field_type}" for field in entry.sort_by) or "id"
