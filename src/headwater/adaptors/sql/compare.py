"""Documents in a form in which what was written to a table and what is read from it can be compared. Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from headwater.pipeline import values


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Without fields that are null, which a table cannot tell from fields that are not there; numbers and dates in one spelling."""
    return {name: _spelled(value) for name, value in document.items() if value is not None}


def _spelled(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        found = values.native(value)
        if found is not value:
            return _spelled(found) if isinstance(found, int | float | Decimal) else values.extended(found)
    if isinstance(value, dict):
        return {name: _spelled(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_spelled(one) for one in value]
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float | Decimal):
        number = Decimal(repr(value)) if isinstance(value, float) else value
        if not number.is_finite():
            return values.extended(value)
        return int(number) if number == number.to_integral_value() and abs(number) < 10**30 else number.normalize()
    return value
