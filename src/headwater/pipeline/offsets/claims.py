"""The claims of a pipeline's runs: by them, records count or not where the log's engine cannot refuse those of an older run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

Claim = tuple[int, int]  # the run's epoch, and the log's end when it claimed
_end = itemgetter(1)


def claimed(before: Sequence[Claim], now: Claim, *, start: int) -> tuple[Claim, ...]:
    """The claims with a new one: all that a record at `start`, the log's first offset, or behind it can be judged by.

    Of several at one end the newest says everything; so does, of those at `start` or before it, the newest.
    """
    kept: list[Claim] = []
    for claim in sorted({*before, now}):
        while kept and (kept[-1][1] >= claim[1] or claim[1] <= start):
            kept.pop()
        kept.append(claim)
    return tuple(kept)


def overtaken(epoch: int, offset: int, claims: Sequence[Claim]) -> bool:
    """Whether a run wrote a record after a newer one had claimed the log."""
    at = bisect_right(claims, offset, key=_end)
    return at > 0 and claims[at - 1][0] > epoch
