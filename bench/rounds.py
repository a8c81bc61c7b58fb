"""Measuring a case: both sides in turns, so that whatever else the machine does hits both."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.case import Case, Peak, Sample


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some figures, and how far they lie apart."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        return cls(median(figures), min(figures), max(figures))


@dataclass(frozen=True, slots=True)
class Measured:
    """A case with its samples. Sample i of one side was taken right beside sample i of the other."""

    case: Case
    ours: list[Sample | Peak]
    floor: list[Sample | Peak]
    load: float  # the machine's load average over a minute, after the last round

    @property
    def our_rate(self) -> Spread:
        return Spread.of([sample.rate for sample in self.ours])

    @property
    def floor_rate(self) -> Spread:
        return Spread.of([sample.rate for sample in self.floor])

    @property
    def ratio(self) -> Spread:
        """Our rate over the other's, taken pair by pair: a slow moment of the machine then counts on both sides."""
        return Spread.of([a.rate / b.rate if b.rate else 0.0 for a, b in zip(self.ours, self.floor, strict=True)])

    @property
    def met(self) -> bool | None:
        """Whether the mark is met; None without a mark, or where it does not apply."""
        return self.case.mark.met(self) if self.case.mark else None


def measure(case: Case, rounds: int) -> Measured:
    """One round of each side to warm up, then `rounds` rounds of both. Who goes first changes each time: caches and drift favour nobody."""
    rounds = case.rounds or rounds
    sides = [(case.ours, list[Sample | Peak]()), (case.floor, list[Sample | Peak]())]
    for number in range(-1 if case.warm else 0, rounds):
        for side, samples in sides if number % 2 else reversed(sides):
            gc.collect()  # between rounds: garbage of one side must not be paid for by the other
            sample = side.run()
            if number >= 0:
                samples.append(sample)
    return Measured(case, sides[0][1], sides[1][1], os.getloadavg()[0])
