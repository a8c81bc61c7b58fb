"""Stops processes in tests, so that they stand still where nobody waits for them."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import ExitStack
from pathlib import Path


def stop_outside(pid: int, *locks: Path) -> None:
    """Stop a child while it holds none of these lock files, which are named in the order in which it takes them.

    From a process that holds one nobody takes over before it goes on, and all wait for it. So this process takes the locks before it stops
    the child. To stop it again and again until it happens to hold none would leave it no time to let go of them.
    """
    with ExitStack() as held:
        for lock in locks:
            fcntl.flock(held.enter_context(lock.open("rb")), fcntl.LOCK_EX)
        stop(pid)


def stop(pid: int) -> None:
    """Stop a child, and return when all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), f"it ended with {status}"
