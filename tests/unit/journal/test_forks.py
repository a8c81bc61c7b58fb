"""Forks are the same, whatever the store has copied."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.unit.journal.ground import Ground, appended, deleted, purged, random_records
from tests.unit.journal.partitions import TOPIC
from tests.unit.journal.partitions import Ground as PartlyCopied

from headwater.journal.discovery import JournalTopic
from headwater.journal.forks import topic_forks
from headwater.journal.store import ForkedNumber, PartitionView
from headwater.journal.topics import PART


def test_forks_are_found_with_their_places_in_sql_as_by_a_walk(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("b", 1, 2), appended("a", 1), appended("b", 2), appended("a", 2), appended("b", 2, 3), appended("a", 1))
    ground.loop().catch_up()
    found = topic_forks(ground.log, ground.store, topic)
    assert found == [(0, ForkedNumber("a", 1, (1, 5))), (0, ForkedNumber("b", 2, (0, 2, 4)))]
    assert topic_forks(ground.log, ground.store, topic, limit=1) == found[:1]
    copy = ground.store.partition(topic.name, 0, topic.generation)
    assert copy is not None
    with copy.view() as view:
        assert PartitionView.forks(view) == view.forks()


def test_forks_behind_the_pointer_are_found(ground: Ground) -> None:
    topic = ground.topic(partitions=2)
    ground.append(appended("a", 1, 3), appended("a", 2))
    assert topic_forks(ground.log, ground.store, topic) == [(0, ForkedNumber("a", 2, (0, 1)))]
    ground.loop().catch_up()
    ground.append(appended("a", 3), appended("b", 1), appended("b", 1), appended("c", 1), purged("c"), appended("c", 1))
    found = [(0, ForkedNumber("a", 2, (0, 1))), (0, ForkedNumber("a", 3, (0, 2))), (0, ForkedNumber("b", 1, (3, 4)))]
    assert topic_forks(ground.log, ground.store, topic) == found
    ground.append(deleted("a", 2), purged("b"))
    assert topic_forks(ground.log, ground.store, topic) == found[1:2]


def test_forks_do_not_depend_on_what_is_copied(tmp_path: Path) -> None:
    some = 0
    for seed in range(6):
        ground, random = PartlyCopied(tmp_path / str(seed)), Random(seed)
        topic = JournalTopic(TOPIC, 1, ground.topic.generation)
        for record in random_records(random, 60):
            ground.log.append(TOPIC, 0, [record], part=PART)
        told = []
        for end in sorted(random.sample(range(1, 60), 4)):
            told.append(topic_forks(ground.log, ground.store, topic))
            ground.copy(end)
        ground.copy()
        told.append(topic_forks(ground.log, ground.store, topic))
        assert all(forks == told[-1] for forks in told)
        some += len(told[-1])
        ground.close()
    assert some
