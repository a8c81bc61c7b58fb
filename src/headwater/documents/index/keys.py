"""Keys of the rows of indexes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.filter.evaluate import Verdict, compile_filter
from headwater.documents.filter.parser import parse_field
from headwater.documents.filter.tree import Expression
from headwater.documents.filter.values import NULL, NUMBER, TEXT, at_path, kind
from headwater.documents.index.order import BY_ID, OrderField, order_key


class IndexKeys:
    """Makes the key of an index's row. Immutable; safe to use from several threads."""

    __slots__ = ("_filter", "_key_order", "_types", "order")

    def __init__(self, sort_by: tuple[SortField, ...], filter_by: str) -> None:
        self.order = tuple(OrderField(parse_field(field.field_name).names, field.order == "desc") for field in sort_by)
        self._key_order = (*self.order, BY_ID)
        self._types = tuple(NUMBER if field.field_type == "decimal" else TEXT for field in sort_by)
        self._filter = compile_filter(filter_by) if filter_by else None

    @property
    def tree(self) -> Expression | None:
        """The tree of the filter; None where every item has a row."""
        return None if self._filter is None else self._filter.tree

    def key(self, item: str, body: Mapping[str, Any]) -> bytes | None:
        """The key of an item's row: the fields of the order, a descending one inverted, then the id. None where the filter rejects the
        item, or has no value for it; an item for which it takes too many steps has a key. Never raises for an item of JSON."""
        if self._filter is not None and self._filter.verdict(body) in (Verdict.REJECTED, Verdict.FAILED):
            return None
        return order_key(self._key_order, item, body)

    def unlike(self, body: Mapping[str, Any]) -> bool:
        """Whether a field of the order holds a value of another type than the index says. Such an item has its place, too."""
        values = (at_path(body, field.names) for field in self.order)
        return any(kind(value) not in (NULL, expected) for value, expected in zip(values, self._types, strict=True))


def index_keys(definition: IndexDefinition) -> IndexKeys:
    """The keys of an index. Errors: `BadFilter` where a field or the filter cannot be read, which a checked definition never is."""
    return _index_keys(definition.sort_by, definition.filter_by)


@lru_cache(maxsize=1024)  # an index is asked for with every write to its collection
def _index_keys(sort_by: tuple[SortField, ...], filter_by: str) -> IndexKeys:
    return IndexKeys(sort_by, filter_by)
