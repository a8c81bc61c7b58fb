"""Counts the steps of evaluating a filter for one item, so that no expression holds a thread for long."""

from __future__ import annotations

from typing import Any

from headwater.documents.filter.values import LIST, OBJECT, TEXT, EvaluationError, kind, same


class TooManySteps(EvaluationError):
    """A filter takes too many steps for an item. Queries reject the item; indexes keep it, so that they never lack what a query accepts."""


MOST_STEPS = 200_000
"""Of one item: well below a second. A count and no time, so that an index and a scan reject the same items."""
_CHARACTERS = 64  # read, copied or compared in one step by the interpreter's own loops


class StepMeter:
    """The steps that are left for one item."""

    __slots__ = ("left",)

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.left = steps

    def take(self, steps: int) -> None:
        """Count steps. Errors: `TooManySteps` where none is left."""
        self.left -= steps
        if self.left < 0:
            raise TooManySteps("the filter takes too many steps for this item")

    def read(self, characters: int) -> None:
        """Count the reading of a text."""
        self.take(1 + characters // _CHARACTERS)


def metered_same(left: Any, right: Any, meter: StepMeter) -> bool:
    """As `same`, counted: at most as many steps as the smaller of the two has parts. Errors: `TooManySteps`."""
    meter.take(1)
    left_kind = kind(left)
    if left_kind not in (TEXT, LIST, OBJECT) or left_kind != kind(right) or len(left) != len(right):
        return same(left, right) if left_kind not in (LIST, OBJECT) else False
    if left_kind == TEXT:
        meter.read(len(left))
        return bool(left == right)
    if left_kind == LIST:
        return all(metered_same(a, b, meter) for a, b in zip(left, right, strict=True))
    return all(name in right and metered_same(value, right[name], meter) for name, value in left.items())
