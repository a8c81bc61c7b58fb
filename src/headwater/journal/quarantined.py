"""The quarantined records of a partition as its readers know them: read from the control topic, which says so before any copy does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headwater.journal.control import ControlLog
from headwater.log import Log

_FRESH = 0.1  # seconds for which a reader takes what it knows: decisions are rare, and looking takes longer than a small read
_FRESH_FROM_BROKERS = 5.0  # where looking is a request


class QuarantinedRecords:
    """The offsets that folds leave out. Safe for several threads. `monotonic`: seconds."""

    def __init__(self, log: Log, topic: str, generation: str, partition: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._control, self._generation, self._partition = ControlLog(log, topic), generation, partition
        self._monotonic, self._guard = monotonic, threading.Lock()
        self._fresh = _FRESH if log.engine == "embedded" else _FRESH_FROM_BROKERS
        self._offsets: tuple[int, ...] = ()
        self._looked: float | None = None

    def offsets(self, *, now: bool = False) -> tuple[int, ...]:
        """The offsets, ascending. `now`: everything that is decided by now, for a reader who would fail otherwise.

        Errors: those of the log.
        """
        moment = self._monotonic()
        if now or self._looked is None or moment - self._looked >= self._fresh:
            with self._guard:
                self._control.look()
                self._offsets, self._looked = self._control.partition(self._generation, self._partition).quarantined, moment
        return self._offsets
