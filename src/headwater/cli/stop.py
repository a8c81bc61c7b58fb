"""Signal handling of commands: those that run until stopped, and those that change something and would end by themselves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from headwater.core.errors import HeadwaterError

INTERRUPTED, TERMINATED = 130, 143


class Interrupted(HeadwaterError):
    """Ctrl-C ended a command before it was done. The message says what it has done."""

    status = 503
    exit_code = INTERRUPTED


class Terminated(Interrupted):
    """SIGTERM ended a command before it was done. The message says what it has done."""

    exit_code = TERMINATED


class StopSignal:
    """For a command that runs until stopped: `stopped` becomes true at the first Ctrl-C or SIGTERM, and the second Ctrl-C ends the process.

    Only for the main thread.
    """

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


class InterruptSignal:
    """For a command that would end by itself: Ctrl-C and SIGTERM raise `KeyboardInterrupt`, the first one not inside of `finishing`.

    So the change under way is finished and counted before the command ends. A second signal ends that wait, too. Only for the main thread.
    """

    def __init__(self) -> None:
        self.number = 0  # of the first signal
        self._finishing = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Around a change: the first signal raises after it."""
        self._finishing = True
        try:
            yield
        finally:
            self._finishing = False
        if self.number:
            raise KeyboardInterrupt

    def error(self, message: str, *, hint: str = "") -> Interrupted:
        """The error with which the command ends."""
        kind = Terminated if self.number == signal.SIGTERM else Interrupted
        return kind(message, hint=hint)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        first, self.number = not self.number, self.number or number
        if not (first and self._finishing):
            raise KeyboardInterrupt
