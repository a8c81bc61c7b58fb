"""What a benchmark yields: a case with two sides, or the reason why there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from bench.mark import Mark
    from bench.place import Place
    from bench.sizes import Sizes

Shown = Literal["rate", "time", "memory", "bytes"]


class Sample(NamedTuple):
    """One round of one side: how many pieces, in how many seconds, and how many of them this process had a processor (0: not known)."""

    amount: float
    seconds: float
    cpu: float = 0.0

    @property
    def rate(self) -> float:
        return self.amount / self.seconds if self.seconds > 0 else 0.0


class Peak(NamedTuple):
    """One round of one side whose memory is measured: the most bytes that so many pieces took. Fewer bytes are a higher rate."""

    amount: float
    bytes: int
    cpu: float = 0.0

    @property
    def rate(self) -> float:
        return self.amount / self.bytes if self.bytes > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two things compared. `run` does one round; what it prepares and cleans up it leaves out of the seconds."""

    label: str
    run: Callable[[], Sample | Peak]


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table. `unit` names a piece; `shown` says whether people read pieces per second, seconds per piece or bytes."""

    name: str
    unit: str
    ours: Side
    floor: Side
    mark: Mark | None = None
    shown: Shown = "rate"
    rounds: int | None = None  # None: the size's own
    warm: bool = True  # False: a round has nothing that a round before it could have warmed up
    notes: dict[str, object] = field(default_factory=dict)  # facts for the JSON; a round may add to them


@dataclass(frozen=True, slots=True)
class Skipped:
    """A case that cannot be measured here, or that failed, and why."""

    name: str
    why: str
    failed: bool = False


Benchmark = Callable[["Place", "Sizes"], Iterator[Case | Skipped]]


def timed(work: Callable[[], float]) -> Callable[[], Sample]:
    """A round that is timed as a whole; `work` returns how many pieces it did."""

    def run() -> Sample:
        cpu, begun = time.process_time(), time.perf_counter()
        amount = work()
        return Sample(amount, time.perf_counter() - begun, time.process_time() - cpu)

    return run
