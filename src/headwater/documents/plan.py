"""The plan of a query: which rows of a source are read, in which direction, and what remains to be sorted."""

from __future__ import annotations

from typing import Final, NamedTuple

from headwater.core import bytekeys
from headwater.core.errors import BadInput
from headwater.documents.filter.ranges import AFTER, ALL, ALL_TEXTS, NONE, TOP, KeyRange, KeyRanges, invert, text_of, united
from headwater.documents.index.choose import QueryShape, SourceFit
from headwater.documents.index.order import ID, SURELY_WHOLE, OrderField, field_key

_MOST_RANGES: Final = 5  # each takes a read of its own
_UNDIVIDED: Final = KeyRanges((KeyRange(b"\x40", TOP),))  # lists and objects


class QueryPlan(NamedTuple):
    """Rows of a source within ranges of keys, where a key is that of an index's row, or an id's. The filter is applied to each row, so
    that the ranges need only hold all that it accepts."""

    fit: SourceFit
    ranges: tuple[KeyRange, ...]
    """In the order of the keys; none where no item can be accepted."""
    group: tuple[OrderField, ...]
    """Rows come in groups in which these fields are equal; within a group they are sorted in memory. The whole order: row by row."""

    @property
    def items(self) -> list[str]:
        """Of a plan that reads the collection itself: its ids, where the filter names them; else none."""
        points = [each.point for each in self.ranges]
        return [text_of(point) or "" for point in points if point is not None] if all(points) else []


def make_plan(shape: QueryShape, fit: SourceFit, after: bytes = b"") -> QueryPlan:
    """The plan of a query with a source. `after`: the key, in the query's order, behind which it begins. Errors: `BadInput` for a key that
    is none of this order."""
    ranges = _ranges(shape, fit) if all(values.ranges for values in shape.values.values()) else NONE
    if after:
        ranges = ranges.intersection(KeyRanges((_behind(shape, fit, after),)))
    return QueryPlan(fit, ranges.ranges, shape.sorted_by[: fit.served])


def id_bounds(bounds: KeyRange) -> tuple[str, str | None]:
    """The first id of a range of ids, and the one before which it ends; None: it ends with the last."""
    return text_of(bounds.low) or "", text_of(bounds.high)


def split_key(order: tuple[OrderField, ...], key: bytes) -> dict[tuple[str, ...], bytes]:
    """The keys of the fields of an order, ascending, by their names. Errors: `BadInput`."""
    values = bytekeys.decode(key, [field.descending for field in order])
    if len(values) != len(order):
        raise BadInput("These bytes are no key.", hint="Use a cursor as it was given.")
    return {field.names: _fitted(bytekeys.encode((value,)), field) for field, value in zip(order, values, strict=True)}


def _ranges(shape: QueryShape, fit: SourceFit) -> KeyRanges:
    """The ranges of the rows that the filter may accept: pinned fields, then the ranges of the next."""
    prefix = b""
    for field in fit.order:
        values = shape.values.get(field.names, ALL_TEXTS if field.names == ID else ALL)
        point = shape.pinned(field.names)
        if point is None:
            widened = united(KeyRanges((_widened(each, field),)) for each in _few(values, fit).ranges)
            directed = sorted(each.inverted() for each in widened.ranges) if field.descending else widened.ranges
            return KeyRanges(tuple(KeyRange(prefix + each.low, prefix + (each.high or AFTER)) for each in directed))
        prefix += _directed(_fitted(point, field), field)
    return KeyRanges((KeyRange(prefix, prefix + AFTER),))


def _few(values: KeyRanges, fit: SourceFit) -> KeyRanges:
    """The ranges that are read one by one, where they are few or name ids; else one that holds them all. Lists and objects are never
    divided: those that are too long stand at one place among them."""
    if fit.index is None and all(each.point is not None for each in values.ranges):
        return values
    simple, others = values.intersection(_UNDIVIDED.complement()), values.intersection(_UNDIVIDED)
    divided = simple.union(_UNDIVIDED) if others.ranges else simple
    return divided if len(divided.ranges) <= _MOST_RANGES else KeyRanges((values.hull,))


def _behind(shape: QueryShape, fit: SourceFit, after: bytes) -> KeyRange:
    """The keys that can lie behind a key of the query's order: the group of the key, and those behind it."""
    parts = split_key(shape.order, after)
    served = {field.names for field in shape.sorted_by[: fit.served]}
    prefix = b""
    whole = False
    for field in fit.order:
        point = shape.pinned(field.names)
        if point is None and field.names not in served:
            break
        prefix += _directed(parts[field.names] if point is None else _fitted(point, field), field)
        whole = field.names == ID
        if whole:
            break
    if fit.reverse:
        return KeyRange(b"", prefix if whole else prefix + AFTER)
    return KeyRange(prefix + AFTER if whole else prefix, TOP)


def _widened(hull: KeyRange, field: OrderField) -> KeyRange:
    """A range of values as that of the keys that rows have. Keys of long values are shortened, so that the range takes in its ends."""
    if field.names == ID:
        return hull
    low = _bound(hull.low, field) if len(hull.low) > SURELY_WHOLE else hull.low
    high = _bound(hull.high, field) + AFTER if len(hull.high) > SURELY_WHOLE else hull.high
    return KeyRange(low, high)


def _bound(bound: bytes, field: OrderField) -> bytes:
    """The key that rows have for the value at the end of a range, which lies at the value's key or after it."""
    try:
        return _fitted(bound, field)
    except BadInput:
        return _fitted(bound.removesuffix(AFTER), field)


def _fitted(key: bytes, field: OrderField) -> bytes:
    """The key that rows have for the value of a key."""
    if field.names == ID:
        return key
    [value] = bytekeys.decode(key)
    return field_key(value)


def _directed(key: bytes, field: OrderField) -> bytes:
    return invert(key) if field.descending else key
