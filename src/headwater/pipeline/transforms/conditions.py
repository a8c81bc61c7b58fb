"""What `skip` and `keep` ask of a field: a comparison that has an answer for every pair of values, and never raises.

- A missing field is null. Null equals null alone, and is neither above nor below anything.
- A number on either side compares as a number: integers of any length, decimals, floats, `{"$numberLong": ...}` and its kin, and text
  that is a number ("12", "1.5e3"). Numbers of two types are compared by their digits, so 1.10 is 1.1. NaN equals nothing.
- A date on either side compares as a moment, with `{"$date": ...}` or text in ISO 8601 on the other; without a zone it is UTC.
- Two texts are equal when they are the same text. For order they compare as numbers when both are, else by their characters.
- Truth values, lists, objects and bytes are equal when they are the same; true is not 1. Bytes and UUIDs have an order, the others none.
- Values that do not fit together (a list and a number, "abc" and 5) are not equal and have no order: `!=` is true, all else false.
- `=~` searches a text with Python's regular expressions; numbers are searched as they are written; everything else does not match.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from headwater.core.errors import BadConfig, BadInput
from headwater.pipeline.transforms.paths import MISSING
from headwater.pipeline.values import extended, natives, number

Condition = Callable[[Any], bool]

_WORDS = {"eq": "==", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "match": "=~", "regex": "=~", "=": "==", "<>": "!="}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
OPERATORS = ("==", "!=", "=~", *_ORDERS)


def operator_of(text: object) -> str:
    """The operator that a text names: itself, or a word such as eq, $eq, gte. Errors: `BadConfig` with those that exist."""
    name = text.strip().removeprefix("$").lower() if isinstance(text, str) else ""
    sign = _WORDS.get(name, name)
    if sign not in OPERATORS:
        words = ", ".join(word for word in _WORDS if word.isalpha())
        raise BadConfig(f"{text!r} is no operator.", hint=f"Use one of {' '.join(OPERATORS)}, or {words}.")
    return sign


def condition(written: object, match: Any) -> Condition:
    """A function that says whether a value fits. Errors: `BadConfig` for an unknown operator, or something that cannot be compared with."""
    sign = operator_of(written)
    if sign == "=~":
        return _searching(match)
    try:
        wanted = natives(extended(match))
    except BadInput as error:
        raise BadConfig(f"Nothing can be compared with {match!r}: {error.message}", hint=error.hint) from error
    if sign == "==":
        return lambda value: _equal(_plain(value), wanted)
    if sign == "!=":
        return lambda value: not _equal(_plain(value), wanted)
    compare = _ORDERS[sign]
    if wanted is None or isinstance(wanted, bool | list | dict):
        raise BadConfig(f"{sign} {match!r} has no meaning: nothing is above or below it.", hint="Compare with a number, a text or a date.")

    kind = type(wanted) if type(wanted) in (int, bytes) else None  # of these, two compare as they are

    def ordered(value: Any) -> bool:
        if type(value) is kind:
            return compare(value, wanted)
        pair = _comparable(_plain(value), wanted)
        return pair is not None and compare(*pair)

    return ordered


def _searching(match: Any) -> Condition:
    try:
        search = re.compile(match).search
    except (re.error, TypeError) as error:
        raise BadConfig(f"=~ {match!r} is no regular expression: {error}.", hint="Give a Python regular expression as text.") from error

    def matches(value: Any) -> bool:
        value = _plain(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | UUID):
            return False
        return search(str(value)) is not None

    return matches


def _plain(value: Any) -> Any:
    if isinstance(value, dict | list):
        return natives(value)
    return None if value is MISSING else value


def _equal(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    pair = _comparable(a, b)
    return pair is not None and bool(pair[0] == pair[1])


def _comparable(a: Any, b: Any) -> tuple[Any, Any] | None:
    """Both as values of one kind that has an order; None where there is none."""
    if isinstance(a, datetime) or isinstance(b, datetime):
        left, right = _moment(a), _moment(b)
        return None if left is None or right is None else (left, right)
    if isinstance(a, bytes) and isinstance(b, bytes):
        return a, b
    if isinstance(a, UUID) or isinstance(b, UUID):
        return (str(a).lower(), str(b).lower()) if isinstance(a, UUID | str) and isinstance(b, UUID | str) else None
    x, y = number(a), number(b)
    if x is not None and y is not None:
        return _numbers(x, y)
    return (a, b) if isinstance(a, str) and isinstance(b, str) else None


def _numbers(a: int | float | Decimal, b: int | float | Decimal) -> tuple[Any, Any] | None:
    for operand in (a, b):
        if operand.is_nan() if isinstance(operand, Decimal) else isinstance(operand, float) and math.isnan(operand):
            return None
    # A float stands for the digits that it is written with: 1.1 is meant, not the binary fraction next to it.
    if type(a) is type(b):
        return a, b
    return Decimal(repr(a)) if isinstance(a, float) else a, Decimal(repr(b)) if isinstance(b, float) else b


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None
