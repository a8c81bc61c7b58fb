"""The marks that the log and the pipelines are held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.rounds import Measured


@dataclass(frozen=True, slots=True)
class Mark:
    """What is promised, in words and as a test. The test says None where the promise does not apply."""

    text: str
    met: Callable[[Measured], bool | None]


def ratio(least: float) -> Mark:
    """At least this share of the floor's rate."""
    return Mark(f"ratio ≥ {least:g}", lambda result: result.ratio.median >= least)


def ratio_on_slow_disks(least: float, sync: float) -> Mark:
    """A ratio that holds only where the disk takes `sync` seconds or more: below, our own few microseconds weigh too much."""

    def met(result: Measured) -> bool | None:
        return result.ratio.median >= least if 1 / result.floor_rate.median >= sync else None

    return Mark(f"ratio ≥ {least:g} where a sync takes ≥ {sync * 1000:g} ms", met)


def rate(least: float, text: str) -> Mark:
    """At least this many pieces per second."""
    return Mark(text, lambda result: result.our_rate.median >= least)


def time(most: float, text: str) -> Mark:
    """At most this many seconds per piece, in the middle."""
    return Mark(text, lambda result: 1 / result.our_rate.median <= most)


def own_time(most: float) -> Mark:
    """At most this many seconds per piece on top of the floor."""
    return Mark(f"≤ {most * 1e6:g} µs on top", lambda result: 1 / result.our_rate.median - 1 / result.floor_rate.median <= most)


def memory(most: float) -> Mark:
    """At most so many times the memory of the other side."""
    return Mark(f"≤ {most:g} × the memory", lambda result: result.ratio.median >= 1 / most)


def slowdown(most: float) -> Mark:
    """At most so many times as long as the other side."""
    return Mark(f"≤ {most:g} × as long", lambda result: result.ratio.median >= 1 / most)


def size(most: float) -> Mark:
    """At most this many bytes per piece."""
    return Mark(f"≤ {most:g} bytes", lambda result: 1 / result.our_rate.median <= most)


def both(first: Mark, second: Mark) -> Mark:
    """Two promises for one case."""
    return Mark(f"{first.text}, {second.text}", lambda result: _all(first.met(result), second.met(result)))


def _all(first: bool | None, second: bool | None) -> bool | None:
    verdicts = [verdict for verdict in (first, second) if verdict is not None]
    return all(verdicts) if verdicts else None
