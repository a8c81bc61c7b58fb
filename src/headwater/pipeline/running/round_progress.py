"""The progress of a copy's round while its tasks read: a round of a large source lasts for minutes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from headwater.log import Log
from headwater.pipeline.running.pieces import CopyWork, progress_in
from headwater.pipeline.running.work import CopyProgress

_LOOK = 65_536  # records


class RoundProgress:
    """Finds the progress in the newest records of the log, at a call: the cost does not depend on the rate of reading.

    It never shows more than is read. It may show less until the round is over. Safe for several threads.
    """

    def __init__(self, log: Log, work: CopyWork, tasks: Mapping[int, Sequence[int]]) -> None:
        """`tasks`: the numbers of the slices that each task reads, one after the other."""
        self._log, self._work, self._tasks = log, work, tasks
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
            self._found |= progress_in(self._log, self._work.topic, max(self._upto, end - _LOOK), self._work.copy)
            self._upto = end
            amounts = {number: progress.amount for number, progress in self._found.items()}
            for numbers in self._tasks.values():
                at = max((index for index, number in enumerate(numbers) if number in self._found), default=0)
                for number in numbers[:at]:  # the task has read the slices before the one that it is at
                    if (size := self._work.slices[number].size) is not None:
                        amounts[number] = size
            return amounts
