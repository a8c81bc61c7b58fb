"""Floats as text and back, without a silent change. Pure."""

from __future__ import annotations

import math

from headwater.core.errors import BadInput


def float_text(value: float) -> str:
    """A float as extended JSON writes it."""
    if math.isfinite(value):
        return float.__repr__(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def float_of(text: str) -> float:
    """The float of a number's text. Errors: `BadInput` for one that would become infinite, and for one that would become 0.0."""
    number = float(text)
    if math.isinf(number):
        raise BadInput(f"The number {text[:40]} is beyond the largest float.", hint='Read it with decimals="decimal".')
    if not number and text.lower().partition("e")[0].strip("-0."):
        raise BadInput(f"The number {text[:40]} is nearer to 0 than the smallest float.", hint='Read it with decimals="decimal".')
    return number
