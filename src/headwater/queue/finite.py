"""Whether data are what JSON can hold: neither NaN nor infinite."""

from __future__ import annotations

import math
from decimal import Decimal

import msgspec


def finite(data: object) -> bool:
    """Whether every number is finite, as a float, too: as what it is read."""
    left = [msgspec.to_builtins(data, builtin_types=(Decimal, bytes, bytearray, memoryview, msgspec.Raw))]
    while left:
        value = left.pop()
        if isinstance(value, float | Decimal):
            if not math.isfinite(float(value)):
                return False
        elif isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            left += value
    return True
