"""Documents as they are read back from files: `verify` compares them with the log."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.csv_reader import typed
from headwater.adaptors.file.line_writer import written
from headwater.adaptors.file.source import FileSource
from headwater.core.errors import BadInput, Differs
from headwater.pipeline import values
from headwater.pipeline.number_spelling import spelled
from headwater.pipeline.source_adaptor import Slice


def rows(adaptor: File) -> Iterator[dict[str, Any]]:
    """The documents of the target, in the order of offsets, then what was sent again; none without a target.

    Errors: `Differs` for a line that is no document.
    """
    paths = [adaptor.path] if adaptor.path.exists() else []
    if adaptor.folder:
        paths = [*sorted(adaptor.path.glob("part-*")), *sorted(adaptor.path.glob("replay-*"))]
    source = FileSource(replace(adaptor, decimals="decimal"))
    for path in paths:
        for piece in source.read(Slice("", {"path": str(path)}), None):
            for text in piece.values:
                try:
                    row = values.decode(text)
                except BadInput as error:
                    raise Differs(f"{path} holds what this sink has not written: {error.message}", hint="Put it back as it was.") from error
                yield read_as(adaptor.written_format, adaptor.envelope, row)


def read_as(kind: str, envelope: bool, row: dict[str, Any]) -> dict[str, Any]:
    """A document, or its envelope, that was read from a file, in the form of `stored_as`."""
    if envelope:
        row = row["data"]
    if kind == "parquet":
        return of_table(row)
    return _present(row) if kind == "csv" and not envelope else row


def stored_as(kind: str, envelope: bool, infer: bool, data: dict[str, Any]) -> dict[str, Any]:
    """A document in the form in which a file returns it."""
    if kind == "parquet":
        return of_table(data)
    if kind == "csv" and not envelope:
        return _present({name: typed(written(value), infer) for name, value in data.items()})
    return values.decode(values.encode(data))  # floats are plain numbers there


def of_table(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the distinctions that a table cannot keep."""
    return _plain(values.extended(values.natives(row))) or {}


def _present(row: dict[str, Any]) -> dict[str, Any]:
    """A row without nulls: an empty cell is a missing field."""
    return {name: value for name, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    """A value without null fields, with equal numbers in one type, and with the text of a UUID: a table does not distinguish these."""
    if isinstance(value, dict) and value.keys() == {"$uuid"}:
        return value["$uuid"]
    if isinstance(value, dict) and value.keys() == {"$numberDecimal"}:  # NaN or infinite, as all others are plain numbers
        value = values.native(value)
    if isinstance(value, dict):
        return {name: new for name, old in value.items() if (new := _plain(old)) is not None} or None
    if isinstance(value, list):
        return [_plain(item) for item in value]
    # In a column of decimals a float is what it prints as.
    return spelled(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value
