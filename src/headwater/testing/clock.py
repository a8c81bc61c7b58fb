"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading


class ManualClock:
    """Both times begin at `start` and move by `advance` alone. Without `wakes`, background loops that wait for time never run."""

    def __init__(self, start: float = 1_700_000_000.0, *, wakes: bool = True) -> None:
        self._now, self._wakes = start, wakes

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def now_ms(self) -> int:
        return int(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Real time does not count: only `advance` ends the wait, or the event."""
        deadline = self._now + seconds
        while not event.wait(0.005):
            if self._wakes and self._now >= deadline:
                return False
        return True
