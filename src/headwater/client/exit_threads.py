"""Closes the doors that a program has left open, while the interpreter still lets their threads work.

`atexit` comes too late for that: no pool takes work any more, so that whatever goes on in a loop then fails aloud.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # registers the end of its pools before this module registers its own, which comes first then
import threading
import weakref
from contextlib import suppress
from typing import Protocol


class LeftOpen(Protocol):
    """What has threads until it is ended."""

    def end(self) -> None:
        """End it within seconds, whatever it does; nothing where it has ended."""


_left_open: weakref.WeakSet[LeftOpen] = weakref.WeakSet()


def end_at_exit(open_door: LeftOpen) -> None:
    """End it when the interpreter exits, unless nothing refers to it any more by then."""
    _left_open.add(open_door)


def end_left_open() -> None:
    """End what is registered, unless threads of the program go on behind the end of the main one: they may use it."""
    if not any(_goes_on(thread) for thread in threading.enumerate()):
        for open_door in list(_left_open):
            open_door.end()


def _goes_on(thread: threading.Thread) -> bool:
    """Whether the interpreter waits for the end of a thread. Those of pools wait for the interpreter instead."""
    pooled = getattr(concurrent.futures.thread, "_threads_queues", {})
    return not (thread.daemon or thread is threading.main_thread() or thread in pooled)


with suppress(RuntimeError):  # the interpreter exits already
    getattr(threading, "_register_atexit", atexit.register)(end_left_open)
