"""The epoch of a partition at an offset."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest
from tests.unit.documents.feed_ground import TOPIC, FeedGround

from headwater.documents import epoch_before as module
from headwater.documents.epoch_before import epoch_at_end, epoch_before
from headwater.log import Log
from headwater.log.epochs import CLAIM, EPOCH, Epochs, epoch_at, mark
from headwater.log.record import Bounds, Record


class ClaimedLog:
    """A partition of Kafka, as far as epochs ask for it: the records of owners, stale writers and strangers."""

    engine = "kafka"

    def __init__(self, random: Random, count: int) -> None:
        self.records: list[Record] = []
        epochs = [0]
        for offset in range(count):
            kind = random.random()
            if kind < 0.05:
                epochs.append(epoch_at(offset, "g"))
                self._add(None, None, CLAIM, epochs[-1])
            elif kind < 0.2 and len(epochs) > 1:
                self._add(b"a", b"stale", EPOCH, random.choice(epochs[1:]))
            elif kind < 0.3 or len(epochs) == 1:
                self.records.append(Record(b"a", b"foreign", offset=offset))
            else:
                self._add(b"a", b"own", EPOCH, epochs[-1])

    def _add(self, key: bytes | None, value: bytes | None, name: str, epoch: int) -> None:
        self.records.append(Record(key, value, ((name, mark(epoch)),), offset=len(self.records)))

    def epoch(self, topic: str, partition: int) -> int:
        return self.folded(len(self.records))

    def folded(self, offset: int) -> int:
        epochs = Epochs()
        for record in self.records[:offset]:
            epochs.admits(record)
        return epochs.epoch

    def bounds(self, topic: str, partition: int) -> Bounds:
        return Bounds(0, len(self.records))

    def read(self, topic: str, partition: int, start: int, *, limit: int = 1000, max_bytes: int = 0) -> list[Record]:
        return self.records[start : start + limit]


@pytest.mark.parametrize("seed", range(30))
def test_it_is_what_a_fold_from_the_beginning_has(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 7)
    claimed = ClaimedLog(Random(seed), 120)
    log = cast(Log, claimed)
    for offset in range(121):
        assert epoch_before(log, "t", 0, offset) == claimed.folded(offset)
    epochs, end = epoch_at_end(log, "t", 0)
    assert (epochs.epoch, end) == (claimed.folded(120), 120)


def test_claims_that_come_between_are_read() -> None:
    claimed = ClaimedLog(Random(1), 50)

    class Growing(ClaimedLog):
        def epoch(self, topic: str, partition: int) -> int:
            known = super().epoch(topic, partition)
            self._add(None, None, CLAIM, epoch_at(len(self.records), "g"))  # behind the look at the newest epoch
            return known

    growing = Growing.__new__(Growing)
    growing.records = claimed.records
    epochs, end = epoch_at_end(cast(Log, growing), "t", 0)
    assert (epochs.epoch, end) == (growing.folded(51), 51)


def test_the_embedded_log_marks_nothing(ground: FeedGround) -> None:
    ground.put("shop~/a")
    number: Any = ground.feeds_of("shop~").partition
    assert epoch_before(ground.log, TOPIC, number, 1) == 0
    epochs, end = epoch_at_end(ground.log, TOPIC, number)
    assert (epochs.epoch, end) == (0, 1)
