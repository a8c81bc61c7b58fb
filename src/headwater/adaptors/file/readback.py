"""Documents as a file gives them back: what `verify` compares with what the log holds."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.csv_reader import typed
from headwater.adaptors.file.line_writer import written
from headwater.adaptors.file.source import FileSource
from headwater.pipeline import values
from headwater.pipeline.adaptor import Slice


def rows(adaptor: File) -> Iterator[dict[str, Any]]:
    """The documents of the target, in the order of offsets."""
    paths = sorted(adaptor.path.glob("part-*")) if adaptor.folder else [adaptor.path] if adaptor.path.exists() else []
    for path in paths:
        for piece in FileSource(adaptor).read(Slice("", {"path": str(path)}), None):
            for text in piece.values:
                yield read_as(adaptor.written_format, adaptor.envelope, values.decode(text))


def read_as(kind: str, envelope: bool, row: dict[str, Any]) -> dict[str, Any]:
    """A document that was read from a file of some format, or its envelope, as `stored_as` gives it."""
    if envelope:
        row = row["data"]
    if kind == "parquet":
        return of_table(row)
    return _present(row) if kind == "csv" and not envelope else row


def stored_as(kind: str, envelope: bool, infer: bool, data: dict[str, Any]) -> dict[str, Any]:
    """A document as a file of some format gives it back."""
    if kind == "parquet":
        return of_table(data)
    if kind == "csv" and not envelope:
        return _present({name: typed(written(value), infer) for name, value in data.items()})
    return data


def of_table(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what tables cannot tell apart."""
    return _plain(values.extended(values.natives(row))) or {}


def _present(row: dict[str, Any]) -> dict[str, Any]:
    """A row has a cell for every column: one without a value is a field that is missing."""
    return {name: value for name, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    """A value without what a table cannot tell apart: fields that are null or missing, and the types of equal numbers."""
    if isinstance(value, dict):
        return {name: one for name, old in value.items() if (one := _plain(old)) is not None} or None
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else Decimal(repr(value)).normalize()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and value.adjusted() < 100 else value.normalize()
    return value
