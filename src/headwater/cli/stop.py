"""Signal handling of a command that runs until stopped: the first Ctrl-C or SIGTERM ends it cleanly, the second Ctrl-C at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Self

INTERRUPTED = 130


class StopSignal:
    """Inside, `stopped` becomes true at the first signal. Only for the main thread."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._before: dict[int, object] = {}

    def stopped(self) -> bool:
        return self.event.is_set()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.event.is_set() and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # a hanging cleanup must not block the terminal
        self.event.set()
