"""Documents as they are read back from files: `verify` compares them with the log."""

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
    return data


def of_table(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the distinctions that a table cannot keep."""
    return _plain(values.extended(values.natives(row))) or {}


def _present(row: dict[str, Any]) -> dict[str, Any]:
    """A row without nulls: an empty cell is a missing field."""
    return {name: value for name, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    """A value without null fields, and with equal numbers in one type: a table does not distinguish these."""
    if isinstance(value, dict):
        return {name: one for name, old in value.items() if (one := _plain(old)) is not None} or None
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else Decimal(repr(value)).normalize()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and value.adjusted() < 100 else value.normalize()
    return value
