"""The document that an operator gives in place of a message's. Pure."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

from headwater.core.errors import BadInput
from headwater.pipeline.values import extended

LEVELS = 100  # of objects and lists inside each other: whoever opens the offset log reads every corrected copy


def corrected(original: Any, data: dict[str, Any]) -> Any:
    """The document as it is kept: extended JSON, with floats where the original has them. Errors: `BadInput`."""
    if _deeper(data, LEVELS):
        raise BadInput(
            f"The document has objects and lists more than {LEVELS} deep inside each other.",
            hint="Give the whole document flatter, with --data, or skip the message with `headwater pipeline ack`.",
        )
    return extended(_like(original, data))


def _like(before: Any, after: Any) -> Any:
    """A value in which a number that stands in place of a float is a float, as text cannot say that it is one."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {name: _like(before.get(name), value) for name, value in after.items()}
    if isinstance(before, list) and isinstance(after, list):
        return [*map(_like, before, after), *after[len(before) :]]
    if isinstance(before, float) and isinstance(after, int | Decimal) and not isinstance(after, bool):
        with suppress(OverflowError):
            return float(after)
    return after


def _deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_deeper(item, levels - 1) for item in inner if isinstance(item, dict | list))
