"""Filters on partition, offset and timestamp, turned into bounds, so that records outside of them are not read or not sent to Java."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual

FOREVER = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Span(msgspec.Struct, frozen=True):
    """Numbers [low, high)."""

    low: int = 0
    high: int = FOREVER

    def __and__(self, other: Span) -> Span:
        return Span(max(self.low, other.low), min(self.high, other.high))

    def __contains__(self, number: int) -> bool:
        return self.low <= number < self.high


class Wanted(msgspec.Struct, frozen=True):
    """What a query asks for: these partitions (None: all), offsets, and timestamps in milliseconds."""

    partitions: frozenset[int] | None = None
    offsets: Span = Span()
    timestamps: Span = Span()

    def __and__(self, other: Wanted) -> Wanted:
        both = self.partitions if other.partitions is None else other.partitions
        if self.partitions is not None and other.partitions is not None:
            both = self.partitions & other.partitions
        return Wanted(both, self.offsets & other.offsets, self.timestamps & other.timestamps)

    def has(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions


def push(wanted: Wanted, filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """Narrow `wanted` by the filters; return it with the filters that Spark must still apply itself."""
    left = []
    for one in filters:
        narrower, exact = _wanted(one)
        wanted = wanted & narrower
        if not exact:
            left.append(one)
    return wanted, left


def _wanted(one: Filter) -> tuple[Wanted, bool]:
    """What a filter asks for, and whether that says it all."""
    column = getattr(one, "attribute", ())
    if column == ("partition",):
        return _partitions(one)
    if column == ("offset",):
        span, exact = _span(one, lambda value: (value, value + 1) if _is_int(value) else None)
        return Wanted(offsets=span), exact
    if column == ("timestamp",):
        span, exact = _span(one, _milliseconds)
        return Wanted(timestamps=span), exact
    return Wanted(), False


def _partitions(one: Filter) -> tuple[Wanted, bool]:
    if isinstance(one, IsNotNull):
        return Wanted(), True
    if isinstance(one, EqualTo | EqualNullSafe) and _is_int(one.value):
        return Wanted(frozenset([one.value])), True
    if isinstance(one, In) and all(map(_is_int, one.value)):
        return Wanted(frozenset(one.value)), True
    return Wanted(), False


def _span(one: Filter, bounds: Any) -> tuple[Span, bool]:
    """`bounds` gives for a value the least number that is not below it and the least that is above it."""
    if isinstance(one, IsNotNull):
        return Span(), True
    if isinstance(one, In):
        each = [bounds(value) for value in one.value]
        if not each or None in each:
            return Span(), False
        return Span(min(low for low, _ in each), max(high for _, high in each)), len(each) == 1
    found = bounds(one.value) if hasattr(one, "value") else None
    if found is None:
        return Span(), False
    at, above = found
    match one:
        case EqualTo() | EqualNullSafe():
            return Span(at, above), True
        case GreaterThan():
            return Span(low=above), True
        case GreaterThanOrEqual():
            return Span(low=at), True
        case LessThan():
            return Span(high=at), True
        case LessThanOrEqual():
            return Span(high=above), True
    return Span(), False


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _milliseconds(value: object) -> tuple[int, int] | None:
    """Spark's microseconds to our milliseconds: between two of ours, the value equals none of them."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    microseconds = (value - _EPOCH) // _MICROSECOND
    return -(-microseconds // 1000), microseconds // 1000 + 1
