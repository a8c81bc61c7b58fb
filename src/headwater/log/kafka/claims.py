"""Finds the newest claim of a partition on Kafka, by reading the records: it is stored nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headwater.core.errors import OffsetGone
from headwater.log.epochs import Epochs, highest_before
from headwater.log.kafka.records import headers_of
from headwater.log.record import Bounds, Topic

if TYPE_CHECKING:
    from confluent_kafka import Message

_FIRST_LOOK = 1000
_TRIES = 5

Place = tuple[str, str, int]
Messages = Callable[[str, int, int, int], Iterable["Message"]]


class KafkaClaims:
    """The newest claims of partitions, as far as they have been read. Safe for several threads.

    A partition's epoch is its highest mark that is believed, and the offset of a mark limits it (`headwater.log.epochs`). So the search
    goes back from the end, and stops where no earlier mark can be higher: at the newest claim, or at the start. It reads no record twice.
    """

    def __init__(self, bounds: Callable[[str, int], Bounds], messages: Messages) -> None:
        """`messages(topic, partition, start, end)` returns the records of [start, end), or raises `OffsetGone`."""
        self._bounds, self._messages = bounds, messages
        self._read: dict[Place, tuple[int, int]] = {}  # the end of what was read without a gap, and the epoch there
        self._lock = threading.Lock()

    def newest(self, topic: Topic, partition: int) -> int:
        """The newest claim; 0 where there is none. Reads all of a partition without marks, once. `topic`: as brokers describe it now."""
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

    def _search(self, topic: str, partition: int, bounds: Bounds, start: int) -> int:
        """The highest mark of [start, end), from the end backwards."""
        epoch, end, size = 0, bounds.end, _FIRST_LOOK
        while end > start and epoch < highest_before(end):
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
