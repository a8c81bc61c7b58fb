"""SIGTERM and Ctrl-C for a worker, while it runs."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial


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
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


def _usual(handler: object) -> bool:
    """Whether nobody but Python handles a signal. `asyncio.run` handles Ctrl-C: it cancels, which would leave rows no grace."""
    if isinstance(handler, partial):
        return isinstance(getattr(handler.func, "__self__", None), asyncio.Runner)
    return handler in (signal.SIG_DFL, signal.default_int_handler)
