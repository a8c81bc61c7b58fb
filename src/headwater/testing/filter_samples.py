"""Random filters, orders and items whose values meet: for tests that compare two ways to answer a query."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any, Final

FIELDS: Final = ("a", "b", "c", "o.x", "o.y", "tags")
_VALUES: Final = (None, True, False, 0, 1, 2, 3, 2.5, Decimal("1.0"), -1, 10**20, "", "a", "ab", "b", "1", "yes", "é", "a\0")
_LITERALS: Final = (
    *("null", "true", "false", "0", "1", "2", "3", "2.5", "1.0", "-1", "1e20", '""', "'a'", '"ab"', "'b'", '"1"', "'yes'", "'é'"),
    *("['a']", "[1, 'a']", "[]", "{}", '{"x": 1}', "'a\\u0000'"),
)
_RELATIONS: Final = ("=", "=", "!=", "<", "<=", ">", ">=", "has", "has not")
_PATTERNS: Final = ("'^a'", "'b$'", "'a|b'", "'.'")


def random_item(generator: Random, name: str | None = None) -> dict[str, Any]:
    """An item's body, with few values, so that filters accept some. `name`: its id."""
    body: dict[str, Any] = {"id": generator.choice(("a", "b", "ab", "c", "z")) if name is None else name}
    for field in ("a", "b", "c"):
        if generator.random() < 0.75:
            body[field] = _value(generator)
    if generator.random() < 0.6:
        body["o"] = {field: _value(generator) for field in ("x", "y") if generator.random() < 0.7}
    elif generator.random() < 0.3:
        body["o"] = _value(generator)
    if generator.random() < 0.6:
        body["tags"] = [_value(generator) for _ in range(generator.randrange(4))]
    return body


def random_filter(generator: Random, depth: int = 3) -> str:
    """The text of a filter."""
    choice = generator.random()
    if depth and choice < 0.2:
        return f"({random_filter(generator, depth - 1)}) and ({random_filter(generator, depth - 1)})"
    if depth and choice < 0.35:
        return f"({random_filter(generator, depth - 1)}) or ({random_filter(generator, depth - 1)})"
    if depth and choice < 0.45:
        return f"{generator.choice(('!', 'not '))}({random_filter(generator, depth - 1)})"
    if depth and choice < 0.48:
        return f"({random_filter(generator, depth - 1)}) xor ({random_filter(generator, depth - 1)})"
    field = _field(generator)
    if choice < 0.52:
        return field
    if choice < 0.56:
        return f"{field} {generator.choice(('like', 'not like'))} {generator.choice(_PATTERNS)}"
    if choice < 0.59:
        return f"{field} is {generator.choice(('', 'not '))}null"
    if choice < 0.62:
        return f"length({field}) {generator.choice(('>', '='))} {generator.choice(('0', '1', '2'))}"
    if choice < 0.64:
        return f"{field} + 1 > 2"
    if choice < 0.67:
        return f"{field} {generator.choice(_RELATIONS)} {_field(generator)}"
    if choice < 0.72:
        return f"{generator.choice(_LITERALS)} {generator.choice(_RELATIONS)} {field}"
    if choice < 0.74:
        return generator.choice(_LITERALS)
    return f"{field} {generator.choice(_RELATIONS)} {generator.choice(_LITERALS)}"


def random_order(generator: Random) -> str:
    """The text of an order of no to three fields."""
    count = generator.choice((0, 1, 1, 1, 2, 2, 3))
    return ",".join(f"{generator.choice(('', '+', '-'))}{_field(generator)}" for _ in range(count))


def _field(generator: Random) -> str:
    return generator.choice((*FIELDS, "a", "a", "b", "id"))


def _value(generator: Random) -> Any:
    if generator.random() < 0.08:
        return generator.choice(([], ["a"], [1, "a"], {}, {"x": 1}, {"x": {"y": None}}))
    return generator.choice(_VALUES)
