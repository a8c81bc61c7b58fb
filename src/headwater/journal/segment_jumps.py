"""Segments of a journal that are known to be empty, because its numbers jump over them.

Cassandra cannot be asked for the next segment that has rows, so whoever reads, deletes or purges goes through all of them. A journal whose
events are numbered 1 and 2^62 has 10^14 segments: nobody would ever come to the end. So its head keeps the long empty stretches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.journal.store import segment_of

Jumps = tuple[tuple[int, int], ...]
"""Stretches of empty segments, first and last of each, in their order."""

SHORTEST = 64
"""A stretch of fewer segments is gone through."""
_MOST = 64


def jumps_after(jumps: Jumps, segment_size: int, last: int, numbers: Iterable[int]) -> Jumps:
    """The stretches after events of these numbers have come. `last`: the highest number before them, 0: there was none."""
    stretches, reached = list(jumps), segment_of(last, segment_size) if last else -1
    for segment in sorted({segment_of(number, segment_size) for number in numbers}):
        if segment > reached:
            stretches.append((reached + 1, segment - 1))
            reached = segment
        else:
            stretches = [part for begin, end in stretches for part in _without(begin, end, segment)]
    long = sorted(
        (stretch for stretch in stretches if stretch[1] - stretch[0] + 1 >= SHORTEST), key=lambda stretch: stretch[0] - stretch[1]
    )
    return tuple(sorted(long[:_MOST]))


def segments_between(first: int, last: int, jumps: Jumps) -> Iterator[int]:
    """The segments from `first` to `last`, without those that are known to be empty."""
    segment = first
    for begin, end in jumps:
        if end < segment:
            continue
        if begin > last:
            break
        yield from range(segment, begin)
        segment = max(segment, end + 1)
    yield from range(segment, last + 1)


def _without(begin: int, end: int, segment: int) -> list[tuple[int, int]]:
    if not begin <= segment <= end:
        return [(begin, end)]
    return [(begin, segment - 1), (segment + 1, end)]
