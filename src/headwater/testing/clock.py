"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable

from headwater.core.clock import Clock

_TURNS = 20  # of the loop, in which whatever an alarm has woken comes to wait again


class _ManualAlarm:
    def __init__(self, call: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._call, self._loop = call, loop
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def ring(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        if not self.cancelled:  # perhaps by a call that the same moment has made
            self.cancelled = True
            self._call()


class ManualClock(Clock):
    """Both times begin at `start` and move by `advance` and `run`; the date also by `jump`.

    Without `wakes`, background loops that wait for time never run.
    """

    def __init__(self, start: float = 1_700_000_000.0, *, wakes: bool = True) -> None:
        self._now, self._jumped, self._wakes = start, 0.0, wakes
        self._alarms: list[tuple[float, int, _ManualAlarm]] = []
        self._number = 0
        self._guard = threading.Lock()

    def advance(self, seconds: float) -> None:
        """Jump. What is due by then is called by its event loop at its next turn, in the order of the dates."""
        self._to(self._now + seconds)

    def jump(self, seconds: float) -> None:
        """Set the machine's date forward, or back: `now_ms` jumps, no time passes."""
        self._jumped += seconds

    async def run(self, seconds: float) -> None:
        """Move from alarm to alarm, and let each one's work be done before the next: also what a woken task sets comes at its time."""
        end = self._now + seconds
        await self._settle()
        while self._wakes and self._alarms and (due := self._alarms[0][0]) <= end:
            self._to(max(due, self._now))
            await self._settle()
        self._to(end)
        await self._settle()

    def now_ms(self) -> int:
        return round((self._now + self._jumped) * 1_000_000) // 1000

    def monotonic(self) -> float:
        return self._now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Real time does not count: only `advance` ends the wait, or the event."""
        deadline = self._now + seconds
        while not event.wait(0.005):
            if self._wakes and self._now >= deadline:
                return False
        return True

    def call_later(self, seconds: float, call: Callable[[], None]) -> _ManualAlarm:
        alarm = _ManualAlarm(call, asyncio.get_running_loop())
        with self._guard:
            self._number += 1
            heapq.heappush(self._alarms, (self._now + max(seconds, 0), self._number, alarm))
        if seconds <= 0:
            self._to(self._now)
        return alarm

    def _to(self, moment: float) -> None:
        with self._guard:
            self._now = moment
            due = []
            while self._wakes and self._alarms and self._alarms[0][0] <= moment:
                due.append(heapq.heappop(self._alarms)[2])
        for alarm in due:
            alarm.ring()

    async def _settle(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
