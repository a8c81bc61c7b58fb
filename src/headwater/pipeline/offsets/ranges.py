"""Sets of offsets as sorted half-open ranges. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]  # [start, end)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same offsets in as few ranges as there can be."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def missing(start: int, end: int, taken: Iterable[Span]) -> list[Span]:
    """What of [start, end) is in none of the ranges."""
    out: list[Span] = []
    for a, b in joined(taken):
        if b <= start:
            continue
        if a >= end:
            break
        if a > start:
            out.append((start, a))
        start = max(start, b)
    if start < end:
        out.append((start, end))
    return out


def prefix(position: int, taken: Iterable[Span]) -> tuple[int, list[Span]]:
    """A position (inclusive) moved forward over the ranges that follow it without a gap; and the ranges that still lie beyond one."""
    rest: list[Span] = []
    for start, end in joined(taken):
        if start <= position + 1:
            position = max(position, end - 1)
        else:
            rest.append((start, end))
    return position, rest


def cut(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """What of the spans lies in [start, end)."""
    return [(max(first, start), min(last, end)) for first, last in spans if first < end and last > start]
