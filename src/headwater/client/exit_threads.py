"""Ends the threads of doors that a program has left open, while the interpreter still lets them work.

`atexit` comes too late for that: no pool takes work any more, so that whatever goes on in a loop then fails aloud.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from contextlib import suppress
from typing import Protocol


class LeftOpen(Protocol):
    """What goes on in a thread until it is ended."""

    def end(self) -> None:
        """End it within seconds, whatever it does; nothing where it has ended."""


_left_open: weakref.WeakSet[LeftOpen] = weakref.WeakSet()


def end_at_exit(thread: LeftOpen) -> None:
    """End it when the interpreter exits, unless nothing refers to it any more by then."""
    _left_open.add(thread)


def end_left_open() -> None:
    """End what is registered."""
    for thread in list(_left_open):
        thread.end()


with suppress(RuntimeError):  # the interpreter exits already
    getattr(threading, "_register_atexit", atexit.register)(end_left_open)
