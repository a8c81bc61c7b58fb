"""Documents in a form in which what was written to a table and what is read from it can be compared. Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from headwater.pipeline import values
from headwater.pipeline.number_spelling import spelled

_LEVELS = 200  # of objects and lists inside each other; what lies deeper is compared as it is written


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Without fields that are null, which a table cannot tell from fields that are not there; numbers and dates in one spelling."""
    return {name: _spelled(value) for name, value in document.items() if value is not None}


def _spelled(value: Any, levels: int = _LEVELS) -> Any:
    if not levels:
        return value
    if isinstance(value, dict) and len(value) == 1:
        native = values.native(value)
        if native is not value:
            return _spelled(native) if isinstance(native, int | float | Decimal) else values.extended(native)
    if isinstance(value, dict):
        return {name: _spelled(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item, levels - 1) for item in value]
    return spelled(value) if isinstance(value, int | float | Decimal) else value
