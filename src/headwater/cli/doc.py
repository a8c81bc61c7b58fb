"""`headwater doc`: documents, collections and their changes. The commands are in the files named doc_…"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from headwater.cli import doc_care, doc_export, doc_indexes, doc_reading, doc_schemas, doc_templates, doc_writing
from headwater.cli.usage import Command, Group

NOTE = (
    "PATH is such as shop/settings, a document; shop/catalogue~, a collection; or shop/catalogue~/hat, an item of it. Each document and "
    "each collection has revisions from 1 on, without gaps. What is written is durable when the command prints its revision."
)


def group() -> typer.Typer:
    """The commands of the group, in the order of the help."""
    tree = typer.Typer(
        cls=Group, help="Documents: JSON under paths, whose every change is a numbered event.", epilog=NOTE, no_args_is_help=True
    )
    commands: tuple[Callable[..., None], ...] = (
        doc_reading.get,
        doc_writing.put,
        doc_writing.patch,
        doc_writing.post,
        doc_writing.delete,
        doc_reading.list_documents,
        doc_reading.query,
        doc_reading.explain,
        doc_reading.feed,
        doc_reading.history,
        doc_writing.restore,
        doc_indexes.index,
        doc_templates.template,
        doc_indexes.view,
        doc_schemas.schema,
        doc_export.export,
        doc_export.import_,
        doc_care.transactions,
        doc_care.trail,
        doc_care.status,
        doc_care.verify,
        doc_care.rebuild,
    )
    for command in commands:
        listed: Any = command.listed  # type: ignore[attr-defined]
        tree.command(listed.name, cls=Command, epilog=f"For example: {listed.example}" if listed.example else None)(command)
    return tree
