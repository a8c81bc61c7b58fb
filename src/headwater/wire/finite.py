"""Whether data are what JSON can hold: neither NaN nor infinite."""

from __future__ import annotations

import math
from decimal import Decimal

import msgspec


def finite(data: object, *, as_float: bool = True) -> bool:
    """Whether every number is finite. `as_float`: also decimals that are too large for a float, where they are read as such."""
    left = [msgspec.to_builtins(data, builtin_types=(Decimal, bytes, bytearray, memoryview, msgspec.Raw))]
    while left:
        value = left.pop()
        if isinstance(value, float | Decimal):
            if not (math.isfinite(float(value)) if as_float or isinstance(value, float) else value.is_finite()):
                return False
        elif isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            left += value
    return True
