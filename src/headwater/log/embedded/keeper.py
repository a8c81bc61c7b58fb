"""Once a second, brings the manifests of partitions that were appended to up to their durable end, so that reopening is quick."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.log.embedded.partition import Partition


class Keeper:
    """A background thread that runs only while somebody appends. One failing partition never stops the others."""

    def __init__(self, *, partitions: Callable[[], Iterable[Partition]], clock: Clock, period: float = 1.0) -> None:
        self._partitions, self._clock, self._period = partitions, clock, period
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


def settle(partitions: Iterable[Partition]) -> None:
    """One round over the partitions."""
    for partition in partitions:
        try:
            partition.settle()
        except (HeadwaterError, OSError):
            continue  # it is tried again next second; nothing acknowledged depends on it
