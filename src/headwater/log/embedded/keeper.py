"""Once a second, updates the manifests of written partitions to their durable end, so that reopening is quick."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.log.embedded.partition import Partition


class Keeper:
    """A background thread that runs only while partitions are open. One failing partition never stops the others.

    Calls `idle` after each round, which closes unused partitions.
    """

    def __init__(
        self, *, partitions: Callable[[], Iterable[Partition]], idle: Callable[[], None], clock: Clock, period: float = 1.0
    ) -> None:
        self._partitions, self._idle, self._clock, self._period = partitions, idle, clock, period
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headwater-log-keeper", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._clock.wait(self._stop, self._period):
            settle(self._partitions())
            self._idle()


def settle(partitions: Iterable[Partition]) -> None:
    """One round over the partitions."""
    for partition in partitions:
        try:
            partition.settle()
        except (HeadwaterError, OSError):
            continue  # it is tried again next second; nothing acknowledged depends on it
