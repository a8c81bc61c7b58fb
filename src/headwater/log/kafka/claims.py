"""Finds the newest claim of a partition on Kafka, by reading the records: it is stored nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headwater.core.errors import OffsetGone
from headwater.log.epochs import Epochs
from headwater.log.kafka.records import headers_of
from headwater.log.record import Bounds, Topic

if TYPE_CHECKING:
    from confluent_kafka import Message

RECENT = 10_000  # offsets: what an owner that works has written carries its mark
_FIRST_LOOK = 1000
_TRIES = 5

Place = tuple[str, str, int]
Messages = Callable[[str, int, int, int], Iterable["Message"]]


class KafkaClaims:
    """What has been read of partitions' claims. Safe for several threads.

    A partition's epoch is its highest mark that is believed (`headwater.log.epochs`), and a mark is at most its own offset plus one. So the
    search goes back from the end, and stops where nothing earlier can be higher: at the newest claim, or at the start. What has been
    read is not read again.
    """

    def __init__(self, bounds: Callable[[str, int], Bounds], messages: Messages) -> None:
        """`messages(topic, partition, start, end)` gives the records of [start, end), or raises `OffsetGone`."""
        self._bounds, self._messages = bounds, messages
        self._read: dict[Place, tuple[int, int]] = {}  # the end of what was read without a gap, and the epoch there
        self._lock = threading.Lock()

    def newest(self, topic: Topic, partition: int) -> int:
        """The newest claim; 0 where there is none. Of a partition without marks everything is read, once."""
        place = (topic.name, topic.generation, partition)
        for last_try in (*[False] * _TRIES, True):
            bounds = self._bounds(topic.name, partition)
            try:
                with self._lock:
                    known = self._read.get(place)
                if known is not None and bounds.start <= known[0] <= bounds.end:
                    epoch = self._marked(topic.name, partition, known[0], bounds.end, known[1])
                else:
                    epoch = self._search(topic.name, partition, bounds, bounds.start)
                break
            except OffsetGone:  # deleted while it was being read
                if last_try:
                    raise
        with self._lock:
            end, before = self._read.get(place, (0, 0))
            self._read[place] = (max(end, bounds.end), max(epoch, before))
        return max(epoch, before)

    def recent(self, topic: Topic, partition: int) -> int:
        """The newest claim that the last records tell of: for questions that are not worth reading a whole partition.

        An owner whose records all lie further back, behind records that others have put there, is not seen.
        """
        bounds = self._bounds(topic.name, partition)
        with self._lock:
            epoch = self._read.get((topic.name, topic.generation, partition), (0, 0))[1]
        return max(epoch, self._search(topic.name, partition, bounds, max(bounds.start, bounds.end - RECENT)))

    def _search(self, topic: str, partition: int, bounds: Bounds, start: int) -> int:
        """The highest mark of [start, end), from the end backwards."""
        epoch, end, size = 0, bounds.end, _FIRST_LOOK
        while end > start and epoch < end:  # a mark below `end` is at most `end`
            begin = max(start, end - size)
            epoch = self._marked(topic, partition, begin, end, epoch)
            end, size = begin, size * 2
        return epoch

    def _marked(self, topic: str, partition: int, start: int, end: int, epoch: int) -> int:
        """The highest mark of [start, end), at least `epoch`."""
        highest = epoch
        for message in self._messages(topic, partition, start, end) if start < end else ():
            headers = headers_of(message)
            if headers:
                epochs = Epochs()
                empty = not len(message) and message.value() is None and message.key() is None
                epochs.kind(empty, headers, message.offset() or 0)
                highest = max(highest, epochs.epoch)
        return highest
