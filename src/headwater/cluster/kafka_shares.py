"""Shares by Kafka's consumer group: each process does the partitions that the group assigns to it, of a topic of the work's own."""

from __future__ import annotations

import threading
from collections.abc import Collection

from headwater.cluster import OwnedPartition, Ownership
from headwater.cluster.shares import PartitionShares
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import HeadwaterError

_LOOK = 1.0  # seconds between two tries to own what the group may have assigned


class KafkaShares(PartitionShares):
    """Owns partitions of `topic` through `ownership`, which it closes. The topic holds claims alone."""

    def __init__(self, ownership: Ownership, topic: str, partitions: int, *, part: str, clock: Clock | None = None) -> None:
        self._ownership, self._topic, self._partitions, self._part = ownership, topic, partitions, part
        self._clock = clock or SystemClock()
        self._guard, self._closing = threading.Lock(), threading.Event()
        self._owned: dict[int, OwnedPartition] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Try again and again in a thread: the group takes seconds to decide."""
        self._thread = threading.Thread(target=self._run, name="shares", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            self.look()
            self._clock.wait(self._closing, _LOOK)

    def look(self) -> None:
        """Own every partition that the group has assigned."""
        for number in range(self._partitions):
            with self._guard:
                owned = self._owned.get(number)
                if owned is not None and owned.lost:
                    owned.release()
                    del self._owned[number]
                    owned = None
            if owned is None and not self._closing.is_set():
                try:
                    claimed = self._ownership.own(self._topic, number, part=self._part)
                except HeadwaterError:  # of another member, or not decided yet
                    continue
                with self._guard:
                    self._owned[number] = claimed

    def assigned(self) -> frozenset[int]:
        with self._guard:
            return frozenset(number for number, owned in self._owned.items() if not owned.lost)

    def hold(self, partitions: Collection[int]) -> None:
        """The group knows."""

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._ownership.close()
        if self._thread is not None:
            self._thread.join()
