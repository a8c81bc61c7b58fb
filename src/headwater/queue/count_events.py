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
        now, found = self._now_ms(), self._read()
        seconds, totals = max(now - self._changed, INTERVAL) / 1000, _totals(found)
        rates = Rates(*(round((after - before) / seconds, 3) for before, after in zip(self._base, totals, strict=True)))
        told = counts_told(found, rates)
        self._base = totals
        if told != self._last:
            self._last = told
            self._events.tell(QueueEvent("counts", now, counts=told, position=self._position()))
        self._events.due(now, found.counts.due, self._position())
        if any(rates):  # that nothing more happens is news, too
            self._set(now + INTERVAL)


def counts_told(found: QueueStatistics, rates: Rates) -> QueueCounts:
    """What an event tells of the rows that there are."""
    return QueueCounts(found.counts, rates, found.oldest_due, found.paused, found.waiting_claims)


def _totals(found: QueueStatistics) -> Rates:
    return Rates(found.puts, found.claims, found.done, found.failed)
