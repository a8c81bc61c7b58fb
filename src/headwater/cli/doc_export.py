"""`headwater doc export | import`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from headwater.cli import completion
from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import count, counted
from headwater.core.errors import BadInput, HeadwaterError, NotFound

if TYPE_CHECKING:
    from headwater.client.blocking import Blocking
    from headwater.documents.export_lines import ExportedDefinition
    from headwater.documents.requests import BatchLine

_AT_ONCE = 500  # writes of one request
_AT_ONCE_BYTES = 8 << 20  # of their lines


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
    """Print documents and items as they are, with the times at which they expire, and the indexes, schemas, views and templates: lines for
    `doc import`. Each collection is as it is when its turn comes."""
    from headwater.wire import json

    written = definitions = 0
    temporary = None if to is None else to.with_name(to.name + ".tmp")
    with ExitStack() as opened:
        stream: BinaryIO = sys.stdout.buffer if temporary is None else opened.enter_context(temporary.open("wb"))
        with at.door() as hw:
            for line in _documents(hw, prefix):
                stream.write(json.encode(line) + b"\n")
                written += 1
            for definition in _definitions(hw, prefix):
                stream.write(json.encode(definition) + b"\n")
                definitions += 1
        stream.flush()
    if temporary is not None and to is not None:
        temporary.replace(to)
    more = f" and {counted(definitions, 'definition')}" if definitions else ""
    at.note(f"{counted(written, 'document')}{more}.")


@command("dry_run", example="headwater doc import shop.ndjson", name="import")
def import_(
    at: At,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Lines such as `doc export` has written; or standard input.", show_default=False),
    ] = None,
) -> None:
    """Do what the lines of a file say, one after another. What is refused is told with its line, and the others are done. What has expired
    meanwhile is left out."""
    with ExitStack() as opened:
        try:
            stream: BinaryIO = sys.stdin.buffer if file is None else opened.enter_context(file.open("rb"))
        except OSError as error:
            raise BadInput(
                f"{file} cannot be read: {error.strerror}.", hint="Name a file that `headwater doc export` has written."
            ) from None
        with at.door(changes=not at.dry_run, creates=not at.dry_run) as hw:
            ran = _Import(at, hw)
            for number, line in enumerate(stream, 1):
                ran.take(number, line)
            ran.flush()
    would = "would be" if at.dry_run else "is" if ran.done == 1 else "are"
    refused = f", {count(ran.refused)} refused" if ran.refused else ""
    expired = f", {count(ran.expired)} expired" if ran.expired else ""
    at.answered(
        {"done": ran.done, "refused": ran.refused, "expired": ran.expired, "dry_run": at.dry_run},
        f"{counted(ran.done, 'write')} {would} done{refused}{expired}.",
    )
    if ran.refused:
        raise typer.Exit(5)


class _Import:
    """Does lines, writes many at once."""

    def __init__(self, at: At, hw: Blocking) -> None:
        self._at, self._hw = at, hw
        self._writes: list[tuple[int, BatchLine]] = []
        self._size = 0
        self.done = self.refused = self.expired = 0

    def take(self, number: int, line: bytes) -> None:
        """Errors: `BadInput` for a line that cannot be read; those before it are done."""
        from headwater.core.clock import SystemClock
        from headwater.documents.export_lines import ExportedWrite, read_line

        if not line.strip():
            return
        try:
            entry = read_line(line)
            write = entry.line(SystemClock().now_ms()) if isinstance(entry, ExportedWrite) else None
        except BadInput as error:
            self.flush()
            raise BadInput(f"Line {number}: {error.message}", hint=error.hint) from None
        if not isinstance(entry, ExportedWrite):
            self.flush()
            self._told(number, _outcome(_define, self._hw, entry, self._at.dry_run))
        elif write is None:
            self.expired += 1
        else:
            self._writes.append((number, write))
            self._size += len(line)
            if len(self._writes) >= _AT_ONCE or self._size >= _AT_ONCE_BYTES:
                self.flush()

    def flush(self) -> None:
        """Do the writes that wait."""
        writes, self._writes, self._size = self._writes, [], 0
        lines = [line for _, line in writes]
        if lines:
            outcomes = [_outcome(line.draft) for line in lines] if self._at.dry_run else self._hw.documents.batch(lines)
            for (number, _), outcome in zip(writes, outcomes, strict=True):
                self._told(number, outcome)

    def _told(self, number: int, outcome: object) -> None:
        if isinstance(outcome, HeadwaterError):
            self.refused += 1
            self._at.warned(type(outcome)(f"Line {number}: {outcome.message}", hint=outcome.hint))
        else:
            self.done += 1


def _documents(hw: Blocking, prefix: str) -> Iterator[Any]:
    from headwater.documents.export_lines import ExportedWrite

    for document in hw.documents.export(prefix):
        yield ExportedWrite(method="put", path=document.path, body=document.body, expires=document.expires)


def _definitions(hw: Blocking, prefix: str) -> Iterator[ExportedDefinition]:
    """What an import makes after the items: so an index is built at once, and a schema refuses none that was there before it."""
    from headwater.documents.export_lines import ExportedDefinition, ExportedTemplate
    from headwater.documents.index_requests import HyperStorageIndexNew, HyperStorageIndexSortItem, ViewNew

    def fields(order: list[Any]) -> tuple[HyperStorageIndexSortItem, ...]:
        return tuple(HyperStorageIndexSortItem(item.field_name, item.order, item.field_type) for item in order)

    def new(definition: Any) -> dict[str, Any]:
        return {"sort_by": fields(definition.sort_by), "filter_by": definition.filter_by or None, "materialize": definition.materialize}

    for template in hw.documents.templates.list():
        if template.template_uri.startswith(prefix):
            yield ExportedDefinition(
                template=ExportedTemplate(index_id=template.index_id, template_uri=template.template_uri, **new(template))
            )
    for view in hw.documents.views.list():
        if view.path.startswith(prefix):
            yield ExportedDefinition(path=view.path, view=ViewNew(template_uri=view.template_uri, filter=view.filter))
    for listed in hw.documents.list(prefix):
        if listed.path.endswith("~"):
            collection = hw.documents[listed.path]
            try:
                for index in collection.indexes.list():
                    if index.status != "deleting":
                        yield ExportedDefinition(path=listed.path, index=HyperStorageIndexNew(index_id=index.index_id, **new(index)))
                yield ExportedDefinition(path=listed.path, schema=collection.schema.get())
            except NotFound:  # it has no schema, or was deleted since it was listed
                continue


def _define(hw: Blocking, line: ExportedDefinition, dry_run: bool) -> None:
    """Errors: those of the definition; `AlreadyExists` where there is another one of its name."""
    import msgspec

    if line.template is not None:
        new: Any = line.template
        hw.documents.templates.put(
            new.index_id, new.template_uri, sort=new.sort_by or (), filter=new.filter_by, materialize=new.materialize, dry_run=dry_run
        )
    elif line.view is not None:
        hw.documents.views.put(line.path, line.view.template_uri, filter=line.view.filter, dry_run=dry_run)
    elif line.schema is not msgspec.UNSET:
        hw.documents[line.path].schema.put(line.schema, dry_run=dry_run)
    elif line.index is not None:
        new = line.index
        hw.documents[line.path].indexes.put(
            new.index_id, sort=new.sort_by or (), filter=new.filter_by, materialize=new.materialize, dry_run=dry_run
        )


def _outcome(called: Any, *arguments: Any) -> object:
    try:
        return called(*arguments)
    except HeadwaterError as error:
        return error
