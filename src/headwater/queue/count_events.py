"""Tells listeners of a queue how many rows it has, and how much happens in it: at most once a second, and only where that has changed."""

from __future__ import annotations

from collections.abc import Callable

from headwater.core.timers import Timer, Timers
from headwater.queue.events import QueueEvents
from headwater.queue.values import QueueCounts, QueueEvent, QueueStatistics, Rates

INTERVAL = 1000
"""Milliseconds from one event to the next."""


class CountEvents:
    """Sends `counts` events. Without listeners, and while nothing changes, it sets no timer: nobody is woken."""

    def __init__(
        self,
        events: QueueEvents,
        timers: Timers,
        now_ms: Callable[[], int],
        read: Callable[[], QueueStatistics],
        *,
        position: Callable[[], int],
    ) -> None:
        """`position`: the sequence of the last record that is durable."""
        self._events, self._timers, self._now_ms, self._read, self._position = events, timers, now_ms, read, position
        self._timer: Timer | None = None
        self._base = Rates()  # what had happened at the last look, since the queue was opened
        self._changed = 0  # when something changed first, since then
        self._last: QueueCounts | None = None

    def begin(self) -> None:
        """Somebody listens from now on: tell soon what there is."""
        if len(self._events) == 1:
            self._base, self._last = _totals(self._read()), None
        self._set(self._now_ms())

    def look(self) -> None:
        """Something may have changed: tell it, once the second is over."""
        if self._timer is None and self._events:
            self._set(self._now_ms() + INTERVAL)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, date: int) -> None:
        self.stop()
        self._changed = self._now_ms()
        self._timer = self._timers.at(date, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if not self._events:
            return
        now, statistics = self._now_ms(), self._read()
        seconds, totals = max(now - self._changed, INTERVAL) / 1000, _totals(statistics)
        rates = Rates(*(round((after - before) / seconds, 3) for before, after in zip(self._base, totals, strict=True)))
        counts = counts_told(statistics, rates)
        self._base = totals
        if counts != self._last:
            self._last = counts
            self._events.tell(QueueEvent("counts", now, counts=counts, position=self._position()))
        self._events.due(now, statistics.counts.due, self._position())
        if any(rates):  # that nothing more happens is news, too
            self._set(now + INTERVAL)


def counts_told(statistics: QueueStatistics, rates: Rates) -> QueueCounts:
    """What an event tells of the rows that there are."""
    return QueueCounts(statistics.counts, rates, statistics.oldest_due, statistics.paused, statistics.waiting_claims)


def _totals(statistics: QueueStatistics) -> Rates:
    return Rates(statistics.puts, statistics.claims, statistics.done, statistics.failed)
