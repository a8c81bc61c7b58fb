"""The threads of a run: one for each of its loops."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headwater.core.clock import Clock


class LoopThreads:
    """Starts a run's loops, and tells at once when the last of them has ended."""

    def __init__(self, attention: threading.Event, clock: Clock) -> None:
        """`attention`: is set whenever a loop ends. Others may set it, too, to end a `wait`."""
        self._attention, self._clock = attention, clock
        self._threads: list[threading.Thread] = []
        self._ended: set[threading.Thread] = set()

    def add(self, name: str, call: Callable[[], None]) -> None:
        """A thread for `call`, which handles its own errors."""

        def run() -> None:
            try:
                call()
            finally:
                self._ended.add(threading.current_thread())
                self._attention.set()

        self._threads.append(threading.Thread(target=run, name=name, daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def running(self) -> bool:
        """Whether a loop has not ended."""
        return len(self._ended) < len(self._threads)

    def wait(self, seconds: float) -> None:
        """Return when a loop has ended since the last wait, or somebody asks for attention; after `seconds` at the latest."""
        self._clock.wait(self._attention, seconds)
        self._attention.clear()

    def join(self, seconds: float) -> None:
        """Wait for all threads, so long at the most."""
        deadline = self._clock.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
