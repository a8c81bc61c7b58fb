from __future__ import annotations

from tests.unit.journal.ground import Ground

from headwater.journal.counts import note_count, partition_counts
from headwater.journal.discovery import JournalTopic


def test_the_numbers_of_partitions_that_were_seen_stay_in_their_order(ground: Ground) -> None:
    two, eight = JournalTopic("journal", 2, "g"), JournalTopic("journal", 8, "g")
    assert partition_counts(ground.store, two) == (2,)
    assert note_count(ground.store, two)
    assert not note_count(ground.store, two)
    assert partition_counts(ground.store, eight) == (2, 8)
    assert note_count(ground.store, eight)
    assert partition_counts(ground.store, eight) == (2, 8)


def test_a_topic_that_is_created_again_begins_anew(ground: Ground) -> None:
    note_count(ground.store, JournalTopic("journal", 2, "g"))
    again = JournalTopic("journal", 4, "h")
    assert partition_counts(ground.store, again) == (4,)
    note_count(ground.store, again)
    assert partition_counts(ground.store, again) == (4,)
