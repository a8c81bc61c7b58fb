"""Chooses what serves a query: an index, or the collection itself, which is in the order of ids.

An index serves a query where the query's filter implies the index's. An index whose filter is the query's and whose order is the query's
goes first. Otherwise counts, in this order of weight: the filter of the index, fields that the query pins to one value at the head of the
index's order, a range of the next field, and how much of the query's order the source has already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from headwater.core.spelling import sentence
from headwater.documents.change import IndexDefinition
from headwater.documents.filter.imply import implies, known_values
from headwater.documents.filter.ranges import ALL, ALL_TEXTS, KeyRanges
from headwater.documents.filter.tree import Expression
from headwater.documents.index.keys import index_keys
from headwater.documents.index.order import BY_ID, ID, OrderField, total_order

FilterMatch = Literal["equal", "implied", "all"]
_FILTER_WEIGHT: Final[Mapping[FilterMatch, int]] = {"equal": 20, "implied": 10, "all": 0}
_PINNED_WEIGHT, _RANGE_WEIGHT = 12, 6
_WHOLE_ORDER, _PART_OF_ORDER, _NO_ORDER = 10, 5, -10


class QueryShape(NamedTuple):
    """What a query asks for, as far as it decides how to find it."""

    tree: Expression | None
    order: tuple[OrderField, ...]
    """Ends with the id."""
    values: Mapping[tuple[str, ...], KeyRanges]
    """The values that fields have in every item that the filter accepts."""

    def pinned(self, names: tuple[str, ...]) -> bytes | None:
        """The key of the only value that a field can have."""
        ranges = self.values.get(names, ALL).ranges
        return ranges[0].point if len(ranges) == 1 else None

    @property
    def sorted_by(self) -> tuple[OrderField, ...]:
        """The fields of the order that decide: those that are not pinned; none where there is one item at most."""
        if self.pinned(ID) is not None:
            return ()
        return tuple(field for field in self.order if self.pinned(field.names) is None)


def query_shape(tree: Expression | None, sort: Sequence[OrderField]) -> QueryShape:
    """The shape of a query with a filter and an order."""
    return QueryShape(tree, total_order(sort), known_values(tree))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFit:
    """How a source would serve a query. `index`: None for the collection itself."""

    index: IndexDefinition | None
    order: tuple[OrderField, ...]
    """Of its rows: the fields of their keys, the id last."""
    match: FilterMatch
    reverse: bool
    served: int
    """So many of the query's deciding fields are in order already."""
    ordered: bool
    """All of them are: nothing is sorted in memory."""
    pinned: int
    ranged: bool

    @property
    def name(self) -> str:
        """The id of the index; empty for the collection itself."""
        return "" if self.index is None else self.index.id

    @property
    def narrow(self) -> bool:
        """Whether it holds fewer rows than the collection, as far as is known."""
        return self.match != "all" or self.pinned > 0 or self.ranged

    @property
    def weight(self) -> int:
        """The greatest one is chosen."""
        order = _WHOLE_ORDER - self.reverse if self.ordered else _PART_OF_ORDER if self.served else _NO_ORDER
        return _FILTER_WEIGHT[self.match] + self.pinned * _PINNED_WEIGHT + self.ranged * _RANGE_WEIGHT + order

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sorts the best first: equal weights go to the collection itself, then to the index with fewer fields."""
        exact = self.match == "equal" and self.ordered
        return -self.weight - 1000 * exact, len(self.order), 0 if self.index is None else self.index.number


class SourceChoice(NamedTuple):
    """Sources that can serve a query, the best first; and why each of the other indexes cannot, by its id."""

    fits: tuple[SourceFit, ...]
    unfit: Mapping[str, str]


def choose(shape: QueryShape, indexes: Iterable[IndexDefinition]) -> SourceChoice:
    """What serves a query, the best first. The collection itself is always among them."""
    fits = [_fit(shape, None, (BY_ID,), "all")]
    unfit: dict[str, str] = {}
    for index in indexes:
        if index.state != "ready":
            unfit[index.id] = sentence(f"It is {index.state}: {index.error}" if index.error else f"It is {index.state}")
            continue
        keys = index_keys(index)
        if not implies(shape.tree, keys.tree):
            unfit[index.id] = f"The query may accept items that its filter ({index.filter_by}) rejects."
            continue
        match: FilterMatch = "all" if keys.tree is None else "equal" if keys.tree == shape.tree else "implied"
        fits.append(_fit(shape, index, (*keys.order, BY_ID), match))
    return SourceChoice(tuple(sorted(fits, key=lambda fit: fit.rank)), unfit)


def _fit(shape: QueryShape, index: IndexDefinition | None, order: tuple[OrderField, ...], match: FilterMatch) -> SourceFit:
    wanted = shape.sorted_by
    given = [field for field in total_order(order) if shape.pinned(field.names) is None]
    forward = _common(wanted, given)
    backward = _common(wanted, [OrderField(field.names, not field.descending) for field in given])
    pinned = 0
    while pinned < len(order) and shape.pinned(order[pinned].names) is not None:
        pinned += 1
    return SourceFit(
        index=index,
        order=order,
        match=match,
        reverse=backward > forward,
        served=max(forward, backward),
        ordered=max(forward, backward) == len(wanted),
        pinned=pinned,
        ranged=pinned < len(order) and _bounded(shape, order[pinned].names),
    )


def _common(wanted: Sequence[OrderField], given: Sequence[OrderField]) -> int:
    """How many fields two orders begin with in common."""
    count = 0
    while count < min(len(wanted), len(given)) and wanted[count] == given[count]:
        count += 1
    return count


def _bounded(shape: QueryShape, names: tuple[str, ...]) -> bool:
    return shape.values.get(names, ALL).hull != (ALL_TEXTS if names == ID else ALL).hull
