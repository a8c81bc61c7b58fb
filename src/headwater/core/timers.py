"""Calls by date on an event loop: due dates, ends of leases, expiries. One heap holds them all, and one alarm wakes for the earliest."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from headwater.core.clock import Clock
from headwater.core.date_alarm import DateAlarm, date_alarm

_AT_ONCE = 500  # calls made in one go before the loop runs other tasks
_FEW = 64


class Timer:
    """One call, from `Timers.at` until it is made or cancelled."""

    __slots__ = ("_call", "_timers", "when_ms")

    def __init__(self, timers: Timers, when_ms: int, call: Callable[[], None]) -> None:
        self._timers, self.when_ms = timers, when_ms
        self._call: Callable[[], None] | None = call

    @property
    def pending(self) -> bool:
        """Whether the call is still to be made."""
        return self._call is not None

    def cancel(self) -> None:
        """Prevent the call. Cancelling twice, or after the call, is no error."""
        if self._call is not None:
            self._call = None
            self._timers._forget_one()

    def _take(self) -> Callable[[], None] | None:
        call, self._call = self._call, None
        return call


class Timers:
    """Makes each call once its date has come, in the order of the dates, and for one date in the order of `at`.

    It belongs to the event loop that runs when it is first used. A call never comes before its date (`clock.now_ms`). A call that raises
    is reported to the loop's exception handler, and the others go on. Setting and cancelling cost a few microseconds among any number.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Timer]] = []
        self._number = 0
        self._cancelled = 0
        self._alarm: DateAlarm | None = None
        self._alarm_ms = 0  # the date that the alarm is set for; 0: for none

    def __len__(self) -> int:
        """How many calls are still to be made."""
        return len(self._heap) - self._cancelled

    def at(self, when_ms: int, call: Callable[[], None]) -> Timer:
        """Have `call` made once `when_ms` has come; soon, when it is past."""
        timer = Timer(self, when_ms, call)
        self._number += 1
        heapq.heappush(self._heap, (when_ms, self._number, timer))
        if not self._alarm_ms or when_ms < self._alarm_ms:
            self._set_alarm()
        return timer

    async def sleep_until(self, when_ms: int) -> None:
        """Return once `when_ms` has come."""
        over = asyncio.get_running_loop().create_future()
        timer = self.at(when_ms, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    def close(self) -> None:
        """Make no further calls. Closing twice is no error."""
        for _, _, timer in self._heap:
            timer._take()
        self._heap.clear()
        self._cancelled = self._alarm_ms = 0
        if self._alarm is not None:
            self._alarm.close()
            self._alarm = None

    # -- inside -----------------------------------------------------------------------------------------------

    def _forget_one(self) -> None:
        """A cancelled timer stays in the heap until its date, unless most are cancelled: leases end early all the time."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].pending]
            heapq.heapify(self._heap)
            self._cancelled = 0
        if not len(self):
            self._stop_alarm()

    def _set_alarm(self) -> None:
        while self._heap and not self._heap[0][2].pending:  # nobody waits for it: waking for it would be for nothing
            heapq.heappop(self._heap)
            self._cancelled -= 1
        if self._heap:
            if self._alarm is None:
                self._alarm = date_alarm(self._clock, self._ring)
            self._alarm_ms = max(self._heap[0][0], 1)
            self._alarm.set(self._alarm_ms)
        else:
            self._stop_alarm()

    def _stop_alarm(self) -> None:
        if self._alarm is not None and self._alarm_ms:
            self._alarm.stop()
        self._alarm_ms = 0

    def _ring(self) -> None:
        self._alarm_ms = 0
        now = self._clock.now_ms()
        for _ in range(_AT_ONCE):
            if not self._heap or self._heap[0][0] > now:
                break
            call = heapq.heappop(self._heap)[2]._take()
            if call is None:
                self._cancelled -= 1
                continue
            try:
                call()
            except Exception as error:
                context = {"message": "A timer's call has failed.", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        self._set_alarm()
