"""Signal handling of commands: those that run until stopped, and those that change something and would end by themselves."""

from __future__ import annotations

import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from headwater.core.errors import HeadwaterError

INTERRUPTED, TERMINATED = 130, 143
_GRACE = 5.0  # seconds


class Interrupted(HeadwaterError):
    """Ctrl-C ended a command before it was done. The message says what it has done."""

    status = 503
    exit_code = INTERRUPTED


class Terminated(Interrupted):
    """SIGTERM ended a command before it was done. The message says what it has done."""

    exit_code = TERMINATED


class _SignalHandler(ABC):
    """Handles Ctrl-C and SIGTERM inside of `with`. Only for the main thread."""

    def __init__(self) -> None:
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @abstractmethod
    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Called in the main thread for each signal."""


class StopSignal(_SignalHandler):
    """For a command that runs until stopped: `stopped` becomes true at the first signal, and the second Ctrl-C ends the process."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def stopped(self) -> bool:
        return self.event.is_set()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.event.is_set() and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # a hanging cleanup must not block the terminal
        self.event.set()


class InterruptSignal(_SignalHandler):
    """For a command that would end by itself: a signal raises `KeyboardInterrupt`; the first one, inside of `finishing`, at its end.

    So the command finishes and counts the change under way before it ends. A second signal ends that wait, and so do `grace` seconds: a
    service manager that has sent SIGTERM kills the process soon, and then it could not say what it has done.
    """

    def __init__(self, *, grace: float = _GRACE) -> None:
        super().__init__()
        self.number = 0  # of the first signal
        self._finishing, self._grace = False, grace

    def __enter__(self) -> Self:
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_signal)
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().__exit__(kind, error, trace)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Around a change: the first signal raises after it."""
        self._finishing = True
        try:
            yield
        finally:
            self._finishing = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self.number:
            raise KeyboardInterrupt

    def error(self, message: str, *, hint: str = "") -> Interrupted:
        """The error with which the command ends."""
        kind = Terminated if self.number == signal.SIGTERM else Interrupted
        return kind(message, hint=hint)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGALRM and not self._finishing:
            return  # it came just when the change had ended
        first, self.number = not self.number, self.number or number
        if first and self._finishing:
            signal.setitimer(signal.ITIMER_REAL, self._grace)
            return
        raise KeyboardInterrupt
