"""The index that would serve a query best, as the body that creates it."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.documents.change import SortField
from headwater.documents.filter.format import format_field, format_filter
from headwater.documents.filter.ranges import ALL, KeyRanges
from headwater.documents.filter.tree import Comparison, Constant, Expression, FieldPath, Junction
from headwater.documents.index.choose import QueryShape
from headwater.documents.index.definition import IndexAdvice
from headwater.documents.index.order import ID, OrderField
from headwater.wire import json


def helpful_index(shape: QueryShape) -> IndexAdvice:
    """An index of which such a query reads little more than it returns: pinned fields, then the order; what else the filter asks for is
    the index's filter."""
    pinned = [names for names in sorted(shape.values) if names != ID and shape.pinned(names) is not None]
    ordered = [field for field in shape.order if field.names not in pinned and field.names != ID]
    if shape.order[-1].descending and not ordered:
        ordered = [OrderField(ID, descending=True)] if pinned else []
    served = {*pinned, *([ordered[0].names] if ordered else [])}
    rest = [part for part in _conjuncts(shape.tree) if not _is_served(part, served)]
    fields = [*(OrderField(names) for names in pinned), *ordered]
    return IndexAdvice(
        sort_by=tuple(_sort_field(field, shape) for field in fields),
        filter_by=" and ".join(_operand(part) for part in rest) or None,
    )


def advice(shape: QueryShape, uri: str) -> str:
    """The sentence that says how to create the index."""
    body = json.encode(helpful_index(shape)).decode()
    if body == "{}":
        return "Ask for fewer rows, or give a greater skipMax."
    return f"Create an index: POST /hyper-storage/indexes/{uri} {body}, or give a greater skipMax."


def _conjuncts(tree: Expression | None) -> Iterator[Expression]:
    if isinstance(tree, Junction) and tree.connective == "and":
        for operand in tree.operands:
            yield from _conjuncts(operand)
    elif tree is not None:
        yield tree


def _is_served(tree: Expression, served: set[tuple[str, ...]]) -> bool:
    """Whether a comparison bounds a field by which the index is sorted."""
    match tree:
        case Comparison("=" | "<" | "<=" | ">" | ">=", FieldPath(names), Constant()) | Comparison(
            "=" | "<" | "<=" | ">" | ">=", Constant(), FieldPath(names)
        ):
            return names in served or names == ID
    return False


def _operand(tree: Expression) -> str:
    text = format_filter(tree)
    return text if isinstance(tree, Comparison) else f"({text})"


def _sort_field(field: OrderField, shape: QueryShape) -> SortField:
    values: KeyRanges = shape.values.get(field.names, ALL)
    is_number = bool(values.ranges) and values.hull.low >= b"\x10" and values.hull.high <= b"\x13"
    return SortField(format_field(field.names), "desc" if field.descending else "asc", "decimal" if is_number else "text")
