"""Time is a collaborator: whoever needs it is given a Clock, so that tests move it by hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Where a part gets its time from."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC: the timestamps of records."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow: for periods and deadlines."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set (True) or `seconds` have passed (False)."""
        ...


class SystemClock:
    """The machine's time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)
