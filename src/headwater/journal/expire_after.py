"""Texts of durations after which journals expire, as Scala writes and reads them: `1 day`, `90 minutes`, `250 ms`."""

from __future__ import annotations

import re
from fractions import Fraction

from headwater.core.errors import BadInput
from headwater.journal.unreadable import unreadable

_NANOSECONDS = {"day": 86_400 * 10**9, "hour": 3_600 * 10**9, "minute": 60 * 10**9, "second": 10**9, "millisecond": 10**6}
_LABELS = {
    "day": "d day days",
    "hour": "h hr hrs hour hours",
    "minute": "m min mins minute minutes",
    "second": "s sec secs second seconds",
    "millisecond": "ms milli millis millisecond milliseconds",
    "microsecond": "µs μs micro micros microsecond microseconds",
    "nanosecond": "ns nano nanos nanosecond nanoseconds",
}
_UNITS = {
    label: {**_NANOSECONDS, "microsecond": 1000, "nanosecond": 1}[unit] for unit, labels in _LABELS.items() for label in labels.split()
}
_TEXT = re.compile(r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?)([^\W\d_]+)")
LONGEST = ((1 << 63) - 1) // 10**6
"""Milliseconds: Scala's durations hold 2^63 - 1 nanoseconds, some 292 years."""


def expire_after_text(milliseconds: int) -> str:
    """The text, with the largest unit that keeps the number whole."""
    unit = next(unit for unit, nanoseconds in _NANOSECONDS.items() if not milliseconds * 10**6 % nanoseconds)
    count = milliseconds * 10**6 // _NANOSECONDS[unit]
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def check_expire_after(milliseconds: object) -> int:
    """Milliseconds that a user gave. Errors: `BadInput` for what is no whole number from 0 to 292 years."""
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool) or not 0 <= milliseconds <= LONGEST:
        raise BadInput(
            f"{milliseconds!r:.40} ms is no duration after which a journal expires.", hint="Give one such as 30d, up to 292 years."
        )
    return milliseconds


def read_expire_after(value: int | float | str) -> int:
    """Milliseconds, rounded towards 0, of a text with a unit or of a number of milliseconds. Errors: `UnreadableRecord`."""
    if isinstance(value, str):
        match = _TEXT.fullmatch("".join(value.split()))
        unit = _UNITS.get(match[2]) if match else None
        if match is None or unit is None:
            raise unreadable(f"{value[:40]!r} is no duration after which a journal expires.")
        milliseconds = int(Fraction(match[1]) * unit / 10**6)
    elif value != value or value in (float("inf"), float("-inf")):
        raise unreadable(f"{value} is no duration after which a journal expires.")
    else:
        milliseconds = int(value)
    if not -LONGEST <= milliseconds <= LONGEST:
        raise unreadable(f"{value!r:.40} is longer than 292 years, the longest duration after which a journal expires.")
    return milliseconds
