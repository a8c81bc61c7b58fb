from __future__ import annotations

import pytest
from tests.unit.journal.ground import Ground

from headwater.core.errors import Damaged
from headwater.journal.discovery import Discovery, JournalTopic, TopicChanges
from headwater.log.record import Topic


def test_it_finds_topics_by_their_prefixes_and_leaves_out_their_own_topics(ground: Ground) -> None:
    for name in ("journal-bank", "journal", "ledger-x", "orders", "control-journal-bank", "snapshot-journal-bank"):
        ground.log.create_topic(name)
    discovery = Discovery(ground.log, ("journal", "ledger"))
    assert [topic.name for topic in discovery.look().added] == ["journal", "journal-bank", "ledger-x"]
    assert not discovery.look()


def test_it_notices_topics_that_are_added_removed_and_created_again(ground: Ground) -> None:
    first = ground.topic("journal-a")
    ground.topic("journal-b")
    discovery = Discovery(ground.log, ("journal",))
    discovery.look()
    ground.log.delete_topic("journal-a")
    ground.log.delete_topic("journal-b")
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
