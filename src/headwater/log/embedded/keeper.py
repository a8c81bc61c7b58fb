"""Once a second, updates the manifests of written partitions to their durable end, so that reopening is quick, and disposes of segments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.log.embedded.disposal import dispose
from headwater.log.embedded.partition import Partition
from headwater.log.embedded.reader import PartitionReader


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
            disposed(partition, None)  # segments that a roll has closed, or that somebody was reading
        except (HeadwaterError, OSError):
            continue  # it is tried again next second; nothing acknowledged depends on it


def disposed(partition: Partition, reader: PartitionReader | None) -> None:
    """End the disposal of drained segments, if there are any. `reader`: this process's own, which lets go of them first."""
    if not partition.manifest.drained:
        return
    if reader is not None:
        with suppress(HeadwaterError, OSError):
            reader.manifest()  # a newer one: it closes what this one does not name
    dispose(partition)
