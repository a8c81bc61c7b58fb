"""The interpreter's lock, which one thread of a process holds at a time."""

from __future__ import annotations

import time

_MOMENT_S = 50e-6  # as long as another thread takes to wake up: a shorter pause would take the lock back before it runs


def release_for_a_moment() -> None:
    """Let other threads run now. For long work in the background: without it, a thread that answers callers waits for the interpreter's
    switch interval, 5 ms, each time it needs the lock."""
    time.sleep(_MOMENT_S)
