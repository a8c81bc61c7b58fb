from __future__ import annotations

from tests.unit.journal.ground import TOPIC, Ground, appended

from headwater.journal.lag import PartitionLag, topic_lag
from headwater.testing.clock import ManualClock


def lag(ground: Ground) -> list[PartitionLag]:
    topic = ground.topic()
    return topic_lag(ground.log, ground.store, topic, now=ground.clock.now_ms())


def test_lag_counts_records_and_the_age_of_the_oldest(ground: Ground) -> None:
    assert isinstance(ground.clock, ManualClock)
    ground.topic()
    assert [(one.records, one.seconds, one.pointer) for one in lag(ground)] == [(0, 0.0, -1)] * 2
    ground.append(appended("a", 1))
    ground.clock.advance(2)
    ground.append(appended("a", 2))
    ground.clock.advance(3)
    first, second = lag(ground)
    assert (first.records, first.seconds, first.end) == (2, 5.0, 2)
    assert (second.records, second.seconds) == (0, 0.0)
    ground.loop().catch_up()
    assert [(one.records, one.seconds, one.pointer) for one in lag(ground)] == [(0, 0.0, 1), (0, 0.0, -1)]


def test_records_that_the_log_has_lost_are_counted_apart(ground: Ground) -> None:
    ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 5)])
    ground.log.delete_before(TOPIC, 0, 3)
    first, _ = lag(ground)
    assert (first.missing, first.records, first.start) == (3, 1, 3)


def test_a_copy_of_an_earlier_topic_counts_as_none(ground: Ground) -> None:
    ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 5)])
    ground.loop().catch_up()
    ground.log.delete_topic(TOPIC)
    ground.topic()
    ground.append(appended("a", 1))
    first, _ = lag(ground)
    assert (first.pointer, first.records) == (-1, 1)
