"""How far the work under way is: whoever does it reports, whoever started it may listen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[int, int], None]


def _nobody(done: int, total: int) -> None:
    """Nobody listens."""


_listener: ContextVar[Listener] = ContextVar("headwater_progress", default=_nobody)


def report(done: int, total: int = 0) -> None:
    """So much is done, of `total` (0: not known), in the operation's own unit. Costs nothing where nobody listens."""
    _listener.get()(done, total)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """What is reported inside, in threads that are started from here as well, goes to the listener. It may be called from any thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
