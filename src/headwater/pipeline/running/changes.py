"""What the loops of a run sleep on: each is woken when something may have changed that it waits for."""

from __future__ import annotations

import threading


class Changes:
    """Events of the run's loops, all of which are set by `tell`. A loop clears its own, looks, and then waits for it: nothing is missed."""

    def __init__(self) -> None:
        self._listeners: list[threading.Event] = []

    def listener(self) -> threading.Event:
        """An event for one loop."""
        event = threading.Event()
        self._listeners.append(event)
        return event

    def tell(self) -> None:
        for event in self._listeners:
            event.set()


class StopEvent(threading.Event):
    """Set when the run is to end: all loops hear of it, whatever they wait for."""

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def set(self) -> None:
        super().set()
        self._changes.tell()
