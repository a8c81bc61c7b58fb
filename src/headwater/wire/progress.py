"""Progress of an operation: the code that performs it reports, the code that started it may listen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[int, int], None]


def _nobody(done: int, total: int) -> None:
    """Nobody listens."""


_listener: ContextVar[Listener] = ContextVar("headwater_progress", default=_nobody)


def report(done: int, total: int = 0) -> None:
    """Report `done` of `total` (0: unknown), in the operation's own unit. Costs nothing without a listener."""
    _listener.get()(done, total)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Send reports made inside to the listener, also those of threads started inside. It may be called from any thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
