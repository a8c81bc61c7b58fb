"""Checks that concurrent callers of one document see one order of its changes, which agrees with the times of their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Call(NamedTuple):
    """A call that has ended: when it began and ended, and the revision that it made or saw. `value`: 0 for nothing."""

    began: int
    ended: int
    revision: int
    value: int
    wrote: bool


def check_order(calls: Sequence[Call], order: Mapping[int, int]) -> None:
    """`order`: the value of each revision, as the log or the history has them. Every write was acknowledged."""
    assert list(order) == list(range(1, len(order) + 1))
    assert {call.revision: call.value for call in calls if call.wrote} == order
    for call in calls:
        assert call.value == order.get(call.revision, 0)
        for other in calls:
            if other.ended < call.began:  # real time: what had ended before is seen by what begins after
                assert other.revision < call.revision if call.wrote else other.revision <= call.revision
