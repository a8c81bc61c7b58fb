"""Answers queries the simplest way: every item, one test each, one sort by values. What it shares with the queries is the evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

from headwater.core import bytekeys
from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.index.order import parse_order


def answer(bodies: Mapping[str, Mapping[str, Any]], filter_text: str, sort: str) -> list[str]:
    """The ids of all items that a query accepts, in its order."""
    query = compile_filter(filter_text) if filter_text else None
    items = [item for item, body in bodies.items() if query is None or query.accepts(body)]
    fields = [(field.names, -1 if field.descending else 1) for field in parse_order(sort)]

    def compare(one: str, two: str) -> int:
        for names, direction in fields:
            result = _compare(_value(bodies[one], names), _value(bodies[two], names))
            if result:
                return result * direction
        return _compare(one, two)

    return sorted(items, key=cmp_to_key(compare))


def _value(body: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def _compare(one: Any, two: Any) -> int:
    ranks = _rank(one), _rank(two)
    if ranks[0] != ranks[1]:
        return ranks[0] - ranks[1]
    match ranks[0]:
        case 0:
            return 0
        case 1:
            left, right = (Decimal(repr(value)) if isinstance(value, float) else Decimal(value) for value in (one, two))
            return int(left > right) - int(left < right)
        case 2:
            return int(one.encode() > two.encode()) - int(one.encode() < two.encode())
    keys = bytekeys.encode((one,)), bytekeys.encode((two,))
    return int(keys[0] > keys[1]) - int(keys[0] < keys[1])


def _rank(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool):
        return 3
    return 1 if isinstance(value, int | float | Decimal) else 2 if isinstance(value, str) else 3
