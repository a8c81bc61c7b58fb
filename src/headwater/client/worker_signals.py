"""SIGTERM and Ctrl-C for a worker, while it runs."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType


class ProcessSignals:
    """The handler of a process that does nothing but work: signals end it as usual, until it stops by itself.

    From then on another signal changes nothing: `timeout` sends two, and the second one would kill a process that has done its work and
    is about to say so.
    """

    def __init__(self) -> None:
        self.stopping = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.stopping:
            return
        if number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


@contextmanager
def stop_signals(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Have `stop` called by the event loop with each SIGTERM and Ctrl-C, unless the program handles it. Afterwards all is as before.

    In the main thread alone: others get no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    numbers = [number for number, handler in before.items() if _usual(handler)]
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        # Blocked meanwhile: without its handler of the loop, and before its former one, a signal would kill the process.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        try:
            for number in numbers:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _usual(handler: object) -> bool:
    """Whether nobody but Python handles a signal. `asyncio.run` handles Ctrl-C: it cancels, which would leave rows no grace."""
    if isinstance(handler, partial):
        return isinstance(getattr(handler.func, "__self__", None), asyncio.Runner)
    return isinstance(handler, ProcessSignals) or handler in (signal.SIG_DFL, signal.default_int_handler)
