"""Schema inference: the kind of column that holds all values of a field. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from headwater.pipeline import values

ColumnKind = Literal["bool", "int", "decimal", "float", "text", "moment", "bytes", "uuid", "json"]
_NUMBERS: tuple[ColumnKind, ...] = ("int", "float", "decimal")


def fields(documents: Iterable[dict[str, Any]]) -> dict[str, ColumnKind]:
    """The kind of each field, in the order of their first appearance; text for a field that is always null."""
    found: dict[str, ColumnKind | None] = {}
    for document in documents:
        for name, value in document.items():
            kind = kind_of(value)
            before = found.get(name)
            found[name] = kind if before is None else before if kind is None else _wider(before, kind)
    return {name: kind or "text" for name, kind in found.items()}


def kind_of(value: Any) -> ColumnKind | None:
    match values.native(value):
        case None:
            return None
        case bool():
            return "bool"
        case int() as number:
            return "int" if -(2**63) <= number < 2**63 else "decimal"
        case float():
            return "float"
        case Decimal():
            return "decimal"
        case str():
            return "text"
        case datetime():
            return "moment"
        case bytes():
            return "bytes"
        case UUID():
            return "uuid"
    return "json"


def _wider(one: ColumnKind, other: ColumnKind) -> ColumnKind:
    if one == other:
        return one
    if one in _NUMBERS and other in _NUMBERS:
        return _NUMBERS[max(_NUMBERS.index(one), _NUMBERS.index(other))]
    return "json"  # holds anything
