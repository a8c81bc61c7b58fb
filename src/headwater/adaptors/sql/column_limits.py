"""Values that a server would change to fit a column without an error: tests for each type of column. Pure.

A test is true for a value that the column keeps, and for one that the server refuses by itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from headwater.pipeline import values

Keeps = Callable[[Any], bool]  # of a value in the message's form

_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?")
_DAY = re.compile(r"\d[-/.]\d{1,2}[-/.]\d")  # a date, in the order of any country
_FIRST_DAY = 10_000_101
_YEAR = re.compile(r"\s*\d{4}")
_MICROS = 6  # digits behind the second that a server keeps at most
_SHORTEST, _LONGEST = 6, 9  # digits that a single float always has, and that tell every one from the next


def decimals(scale: int) -> Keeps:
    """Whether a number has no more than `scale` places: the server would round it."""

    def keeps(value: Any) -> bool:
        if type(value) is int and scale >= 0:
            return True
        number = _exact(value)
        if number is None:
            return True
        _, digits, exponent = number.as_tuple()
        spare = -int(exponent) - scale
        return spare <= 0 or not any(digits[-spare:])

    return keeps


def double(value: Any) -> bool:
    """Whether a number is one that a double prints."""
    if type(value) is float or (type(value) is int and -(2**53) <= value <= 2**53):
        return True
    number = _exact(value)
    if number is None:
        return True
    near = float(number)
    return not isfinite(near) or Decimal(near) == number or Decimal(repr(near)) == number


def single(value: Any) -> bool:
    """Whether a number is one that a single float prints, or is."""
    number = _exact(value)
    if number is None:
        return True
    try:
        (near,) = struct.unpack("f", struct.pack("f", float(number)))
    except OverflowError:
        return True
    if not isfinite(near) or (near == float(number) and double(value)):
        return True
    return any(Decimal(f"{near:.{digits}g}") == number for digits in range(_SHORTEST, _LONGEST + 1))


def seconds(places: int) -> Keeps:
    """Whether a moment or a time of day has no more than `places` digits behind the second."""
    unit = 10 ** max(0, _MICROS - places)

    def keeps(value: Any) -> bool:
        if type(value) is not str:
            if unit == 1:
                return True
            value = values.native(value)
            return not isinstance(value, datetime) or value.microsecond % unit == 0
        match = _CLOCK.search(value)
        return match is None or not (match[4] or "")[places:].strip("0")

    return keeps


def day(value: Any) -> bool:
    """Whether a moment has no time of day."""
    value = values.native(value)
    if isinstance(value, datetime):
        at = value.astimezone(UTC) if value.tzinfo else value  # as sinks write it
        return not (at.hour or at.minute or at.second or at.microsecond)
    match = _CLOCK.search(value) if isinstance(value, str) else None
    return match is None or not any((group or "").strip("0") for group in match.groups())


def letters(length: int) -> Keeps:
    """Whether no trailing blanks of a text are beyond `length`: other letters there are an error."""
    return lambda value: type(value) is not str or len(value) <= length or bool(value[length:].strip(" "))


def clock(places: int) -> Keeps:
    """Whether a value is no moment, or its text, whose day would be lost, and has no more than `places` digits behind the second."""
    keeps = seconds(places)
    return lambda value: not (isinstance(values.native(value), datetime) or (type(value) is str and _DAY.search(value))) and keeps(value)


def text(value: Any) -> bool:
    """Whether a value is text: a number would count as something else."""
    return isinstance(values.native(value), str)


def no_number(value: Any) -> bool:
    """Whether a value is no number, nor a truth value: the server would take it for a date or a time of day."""
    return type(value) not in (int, float, bool, Decimal)


def dated(value: Any) -> bool:
    """Whether a value is a moment, or text or an integer that begins with a year.

    The server would choose a century, take 0.1 for a date without a day, or find a date in 10.0.0.5/8.
    """
    if type(value) is str:
        return _YEAR.match(value) is not None
    return no_number(value) or (type(value) is int and value >= _FIRST_DAY)


def timed(value: Any) -> bool:
    """Whether a value is no number, in text or not, of which the server would make hours, minutes and seconds."""
    return no_number(value) and (type(value) is not str or values.number(value) is None)


def no_truth(value: Any) -> bool:
    """Whether a value is no truth value."""
    return type(value) is not bool


def member(names: Collection[str]) -> Keeps:
    """Whether a value is text, and no number in text by which the server would choose one of the names."""
    return lambda value: text(value) and (value in names or values.number(value) is None)


def year(value: Any) -> bool:
    """Whether a number has its century: the server would choose one for 24."""
    number = values.number(value)
    return number is None or not -99 <= number <= 99 or (number == 0 and type(value) is int)


def both(first: Keeps, second: Keeps) -> Keeps:
    return lambda value: first(value) and second(value)


def _exact(value: Any) -> Decimal | None:
    """The number as it prints; None where it is none, or not finite."""
    if type(value) is Decimal:  # usual, and quicker so
        return value if value.is_finite() else None
    number = values.number(value)
    if number is None or (isinstance(number, float) and not isfinite(number)):
        return None
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    return exact if exact.is_finite() else None
