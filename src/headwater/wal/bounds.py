"""The bounds of a read: which sequences of a table are asked for."""

from __future__ import annotations

from typing import Literal

import msgspec

from headwater.core.errors import BadBounds
from headwater.wal.layout import MAX_ID


class Included(msgspec.Struct, frozen=True, tag=True):
    """From or up to this sequence, with it."""

    sequence: int


class Excluded(msgspec.Struct, frozen=True, tag=True):
    """From or up to this sequence, without it."""

    sequence: int


Start = Included | Excluded | Literal["min"]
End = Included | Excluded | Literal["max"]


class SequenceRange(msgspec.Struct, frozen=True):
    """Sequences from `first` to `last`, both included."""

    first: int
    last: int


def sequence_range(start: Start = "min", end: End = "max") -> SequenceRange:
    """The range between two bounds. Errors: `BadBounds` for a range that holds no sequence, whatever the table holds."""
    first, last = _first(start), _last(end)
    if first > last:
        raise BadBounds(f"Sequences {first} to {last} are the wrong way round.", hint="Give the lower sequence first.")
    return SequenceRange(first, last)


def _first(start: object) -> int:
    match start:
        case "min":
            return 0
        case Included(sequence):
            return _checked(sequence)
        case Excluded(sequence):
            if _checked(sequence) == MAX_ID:
                raise BadBounds(f"No sequence lies behind {MAX_ID}.", hint="Give a lower bound.")
            return sequence + 1
    raise BadBounds(f"{start!r} is no bound to begin at.", hint='Give "min", Included(n) or Excluded(n).')


def _last(end: object) -> int:
    match end:
        case "max":
            return MAX_ID
        case Included(sequence):
            return _checked(sequence)
        case Excluded(sequence):
            if _checked(sequence) == 0:
                raise BadBounds("No sequence lies before 0.", hint="Give a higher bound.")
            return sequence - 1
    raise BadBounds(f"{end!r} is no bound to end at.", hint='Give "max", Included(n) or Excluded(n).')


def _checked(sequence: object) -> int:
    if type(sequence) is not int or not 0 <= sequence <= MAX_ID:
        raise BadBounds(f"{sequence!r} is no sequence.", hint=f"Give a whole number from 0 to {MAX_ID}.")
    return sequence
