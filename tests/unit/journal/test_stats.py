from __future__ import annotations

from datetime import date
from random import Random

from tests.unit.journal.ground import TOPIC, Ground, appended, deleted, random_records

from headwater.journal.discovery import JournalTopic
from headwater.journal.stats import PartitionStatistics, topic_statistics
from headwater.journal.store import CopyTotals, PartitionView

TODAY = date(2023, 11, 20)  # the clock of the tests begins six days earlier


def statistics(ground: Ground, topic: JournalTopic) -> list[PartitionStatistics]:
    return topic_statistics(ground.log, ground.store, topic, today=TODAY, now=ground.clock.now_ms())


def test_a_partition_is_counted(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(
        appended("a", 1, 3),
        appended("a", 3),  # a fork
        appended("a", 7),  # a gap
        deleted("a", 1),
        appended("b", 5, expire_after=86_400_000),
        appended("c", 1, expire_after=86_400_000 * 365),
    )
    before = statistics(ground, topic)[0]
    assert (before.totals, before.lag.records) == (CopyTotals(), 6)
    ground.loop().catch_up()
    ground.append(appended("a", 8))
    found, empty = statistics(ground, topic)
    assert found.totals == CopyTotals(journals=3, events=6, payload_bytes=18, forks=1, gaps=1, deleted=5, expired=1)
    assert (found.lag.records, found.lag.end) == (1, 7)
    assert found.log_bytes
    assert empty.totals == CopyTotals()


def test_a_copy_of_an_earlier_topic_holds_nothing_of_this_one(ground: Ground) -> None:
    ground.topic()
    ground.append(appended("a", 1))
    ground.loop().catch_up()
    ground.log.delete_topic(TOPIC, part="journal")
    assert statistics(ground, ground.topic())[0].totals == CopyTotals()


def test_sqlite_counts_what_a_walk_over_all_rows_counts(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    for seed in range(5):
        ground.append(*random_records(Random(seed), 60))
        ground.loop().catch_up()
        copy = ground.store.partition(topic.name, 0, topic.generation)
        assert copy is not None
        with copy.view() as view:
            assert view.totals(TODAY) == PartitionView.totals(view, TODAY)
            assert view.totals(TODAY).events
