"""How far the tasks of a copy's round have come while they are at it: a round of a large source lasts for minutes."""

from __future__ import annotations

import threading

from headwater.log import Log
from headwater.pipeline.running.pieces import CopyWork, progress_in
from headwater.pipeline.running.work import CopyProgress


class RoundProgress:
    """What the log holds of a round. Looks at each of its records once, when somebody asks. Safe for several threads."""

    def __init__(self, log: Log, work: CopyWork) -> None:
        self._log, self._work = log, work
        self._found: dict[int, CopyProgress] = {}
        self._upto = work.since
        self._lock = threading.Lock()

    @property
    def records(self) -> int:
        """How many records the round has appended."""
        return self._log.bounds(self._work.topic, 0).end - self._work.since

    def amounts(self) -> dict[int, int]:
        """By the number of a slice, how much of it is read, in the unit of the plan's size."""
        with self._lock:
            end = self._log.bounds(self._work.topic, 0).end
            self._found |= progress_in(self._log, self._work.topic, self._upto, self._work.copy)
            self._upto = end
            return {number: one.amount for number, one in self._found.items()}
