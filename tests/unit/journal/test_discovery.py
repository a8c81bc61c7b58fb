from __future__ import annotations

import pytest
from tests.unit.journal.ground import Ground

from headwater.core.errors import Damaged
from headwater.journal.discovery import Discovery, JournalTopic, TopicChanges, generation_of_journals, snapshot_generation
from headwater.log.record import Topic


def test_it_finds_topics_by_their_prefixes_and_their_snapshots_behind_them(ground: Ground) -> None:
    for name in ("journal-bank", "journal", "ledger-x", "orders", "control-journal-bank", "snapshot-journal-bank"):
        ground.log.create_topic(name, part="journal")
    discovery = Discovery(ground.log, ("journal", "ledger"))
    assert [topic.name for topic in discovery.look().added] == ["journal", "journal-bank", "snapshot-journal-bank", "ledger-x"]
    assert {topic.name for topic in discovery.topics.values() if topic.holds == "snapshots"} == {"snapshot-journal-bank"}
    assert not discovery.look()


def test_it_notices_topics_that_are_added_removed_and_created_again(ground: Ground) -> None:
    first = ground.topic("journal-a")
    ground.topic("journal-b")
    discovery = Discovery(ground.log, ("journal",))
    discovery.look()
    ground.log.delete_topic("journal-a", part="journal")
    ground.log.delete_topic("journal-b", part="journal")
    again = ground.topic("journal-a")
    added = ground.topic("journal-c")
    assert first.generation != again.generation
    assert discovery.look() == TopicChanges(added=(added,), removed=("journal-b",), created_again=(again,))
    assert discovery.topics == {"journal-a": again, "journal-c": added}


def test_a_topic_that_grows_keeps_its_generation(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ground.topic("journal-a", partitions=2)
    discovery = Discovery(ground.log, ("journal",))
    discovery.look()
    grown = Topic(topic.name, 3, ground.log.topic(topic.name).settings, topic.generation)
    monkeypatch.setattr(ground.log, "topic", lambda name: grown)
    assert discovery.look() == TopicChanges(grown=(JournalTopic(topic.name, 3, topic.generation),))


def test_a_damaged_topic_is_named_and_keeps_no_other(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.topic("journal-a")
    ground.topic("journal-b")
    discovery = Discovery(ground.log, ("journal",))
    discovery.look()
    describe = ground.log.topic

    def topic(name: str) -> Topic:
        if name == "journal-a":
            raise Damaged("It is damaged.")
        return describe(name)

    monkeypatch.setattr(ground.log, "topic", topic)
    assert not discovery.look().removed
    assert list(discovery.topics) == ["journal-b"]
    assert list(discovery.damaged) == ["journal-a"]


def test_the_generation_of_snapshots_names_that_of_their_journals_whatever_kafka_calls_it() -> None:
    both = snapshot_generation("a/b+c", "d/e/f")
    assert generation_of_journals(both) == "d/e/f"
    assert both != snapshot_generation("a/b+c", "d/e/g")
