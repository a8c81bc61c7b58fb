"""Clocks. Code that needs the time takes a `Clock`, so that tests move the time by hand."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Protocol


class Alarm(Protocol):
    """A pending call, made once."""

    def cancel(self) -> None:
        """Prevent the call. Cancelling twice, or after the call, is no error."""
        ...


class Clock(Protocol):
    """The source of time.

    A class that says `class MyClock(Clock)` gets `sleep` and `timeout` from `call_later`.
    """

    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC: the timestamps of records."""
        ...

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds that only grow: for periods and deadlines."""
        ...

    @abstractmethod
    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set (True) or `seconds` have passed (False)."""
        ...

    @abstractmethod
    def call_later(self, seconds: float, call: Callable[[], None]) -> Alarm:
        """Have `call` made by the running event loop once `seconds` have passed. For dates, and for many: `headwater.core.timers`."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed."""
        over = asyncio.get_running_loop().create_future()
        alarm = self.call_later(seconds, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            alarm.cancel()

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncGenerator[None]:
        """Cancel what is awaited inside, and raise `TimeoutError`, once `seconds` have passed."""
        async with asyncio.timeout(None) as limit:
            now = asyncio.get_running_loop().time()
            alarm = self.call_later(seconds, lambda: limit.reschedule(now))
            try:
                yield
            finally:
                alarm.cancel()


class SystemClock(Clock):
    """The machine's time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Alarm:
        return asyncio.get_running_loop().call_later(seconds, call)
