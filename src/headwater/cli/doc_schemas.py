"""`headwater doc schema`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.doc_options import CollectionPath, json_body, resource_at
from headwater.cli.output import print_json
from headwater.cli.usage import UsageMistake


@command("dry_run", example="""headwater doc schema put shop/catalogue~ '{"required": ["price"]}'""")
def schema(
    verb: Annotated[
        Literal["put", "show", "delete"],
        typer.Argument(metavar="put|show|delete", help="What to do.", show_default=False),
    ],
    path: CollectionPath,
    at: At,
    schema: Annotated[
        str | None, typer.Argument(metavar="SCHEMA", help="Of `put`: a JSON Schema; left out: standard input.", show_default=False)
    ] = None,
) -> None:
    """Give a collection a JSON Schema, show it, or take it away. Writes of items that do not fit it are refused, with the field."""
    if verb != "put" and schema is not None:
        raise UsageMistake(f"schema {verb} takes no schema.", hint="It is of `schema put`.")
    with resource_at(at, path, changes=verb != "show") as resource:
        if verb == "show":
            print_json(resource.schema.get())
            return
        if verb == "put":
            resource.schema.put(json_body(schema), dry_run=at.dry_run)
            says = "would have" if at.dry_run else "has"
            at.answered({"path": path, "dry_run": at.dry_run}, f"{path} {says} the schema.")
        else:
            resource.schema.delete(dry_run=at.dry_run)
            says = "would have" if at.dry_run else "has"
            at.answered({"path": path, "dry_run": at.dry_run}, f"{path} {says} no schema any more.")
