"""The alarm of a queue: rings at the earliest of its dates. The date decides what is due, never the alarm."""

from __future__ import annotations

from collections.abc import Callable

from headwater.core.timers import Timer, Timers
from headwater.queue.date_heap import NEVER


class QueueAlarm:
    """One timer for all dates of a queue. It may ring too early: whoever rings looks at the dates, and sets it again."""

    def __init__(self, timers: Timers, ring: Callable[[], None]) -> None:
        self._timers, self._ring = timers, ring
        self._timer: Timer | None = None

    def set(self, date: int) -> None:
        """Ring at a date, or before. `NEVER`: not at all, so that a queue in which nothing is dated wakes nobody."""
        if self._timer is not None and not self._timer.pending:
            self._timer = None
        if date == NEVER:
            self.stop()
        elif self._timer is None or date < self._timer.when_ms:
            self.stop()
            self._timer = self._timers.at(date, self._ring)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
