"""The one spelling of equal numbers: what is written to a sink and what is read from it are compared in it. Pure."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)  # Python's default would round to 28 digits
_LONG = 30  # digits from which on integers have an exponent, as other numbers of their size
_USUAL = 10**_LONG


def spelled(number: int | float | Decimal) -> int | float | Decimal:
    """The number, exact, in the spelling of all that equal it: 5 of 5.00, 1.1 of 1.10, 1 of true; NaN and the infinities are floats.

    A float is the number that it prints as.
    """
    if isinstance(number, int) and -_USUAL < number < _USUAL:
        return int(number)
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if not exact.is_finite():
        return math.nan if exact.is_nan() else float(exact)
    if not exact:
        return 0
    if exact.adjusted() < _LONG and exact == exact.to_integral_value():
        return int(exact)
    return exact.normalize(_EXACT)
