"""A 64-bit integer of BSON, which MongoDB tells apart from a 32-bit one. Pure."""

from __future__ import annotations

from typing import Any

INT32 = range(-(1 << 31), 1 << 31)


class Long(int):
    """An integer that is written to MongoDB as a long although 32 bits hold it, and is an `int` everywhere else.

    What is computed with one is a plain `int`. In the log it is extended JSON, `{"$numberLong": "7"}`.
    """

    __slots__ = ()


def long(number: int) -> int:
    """A long of BSON: an integer that needs more than 32 bits is one without being marked."""
    return Long(number) if int(number) in INT32 else int(number)


def plain(value: Any) -> int:
    """What an encoder that knows Python's own types alone writes for a `Long`. Errors: `TypeError` for anything else."""
    if isinstance(value, Long):
        return int(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
