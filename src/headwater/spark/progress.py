"""How far a job is: counted from what its tasks report themselves, so that it is true whatever Spark shows."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from headwater.core.clock import Clock


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A job at one moment. Records are counted by offsets: a compacted or Kafka partition may hold fewer."""

    ranges: int
    ranges_done: int
    records: int
    records_done: int
    seconds: float

    @property
    def lag(self) -> int:
        """Records still to be worked off."""
        return self.records - self.records_done

    @property
    def rate(self) -> float:
        """Records per second since the start."""
        return self.records_done / self.seconds if self.seconds > 0 else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds until the end at this rate; None while nothing is known."""
        if not self.lag:
            return 0.0
        return self.lag / self.rate if self.rate else None

    def __str__(self) -> str:
        left = "" if self.eta is None else f", {self.eta:.0f} s left"
        counts = f"{self.ranges_done} of {self.ranges} ranges, {self.records_done:,} of {self.records:,} records"
        return f"{counts}, {self.rate:,.0f} records/s{left}"


class Meter:
    """Collects reports of finished ranges. Safe from several threads; a range that ran twice is counted once."""

    def __init__(self, sizes: Sequence[int], *, clock: Clock) -> None:
        self._sizes, self._clock = tuple(sizes), clock
        self._began = clock.monotonic()
        self._done: set[int] = set()
        self._records = 0
        self._lock = threading.Lock()

    def finished(self, index: int) -> None:
        """The range of this number is worked off."""
        with self._lock:
            if index not in self._done:
                self._done.add(index)
                self._records += self._sizes[index]

    def read(self) -> JobProgress:
        with self._lock:
            done, records = len(self._done), self._records
        seconds = self._clock.monotonic() - self._began
        return JobProgress(ranges=len(self._sizes), ranges_done=done, records=sum(self._sizes), records_done=records, seconds=seconds)
