"""Topics of journals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import AlreadyExists, OwnedTopic, UnknownJournal
from headwater.journal.settings import JournalSettings
from headwater.journal.topics import PART, JournalTopics
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as opened:
        yield opened


def test_a_topic_is_created_once_and_belongs_to_journals(log: EmbeddedLog) -> None:
    topics = JournalTopics(log, JournalSettings(), TopicSettings(max_record=1 << 20))
    topic, new = topics.create("bank")
    assert (topic.name, topic.partitions, topic.settings.owner, topic.settings.max_record, new) == ("journal-bank", 2, PART, 1 << 20, True)
    assert topics.create("journal-bank") == (topic, False) == topics.create("bank", 2)
    assert (topics.list(), topics.find("bank"), topics.writers(topic)) == ([topic], topic, "owner")
    with pytest.raises(AlreadyExists):
        topics.create("bank", 3)
    with pytest.raises(OwnedTopic):
        log.append("journal-bank", 0, [Record(b"a", b"b")])
    assert JournalTopics(log, JournalSettings(partitions=5)).create("shop")[0].partitions == 5


def test_prefixes_say_what_journals_are(log: EmbeddedLog) -> None:
    topics = JournalTopics(log, JournalSettings(prefixes=("events", "journal")))
    topics.create("bank")
    topics.create("journal-old")
    log.create_topic("plain")
    log.create_topic("snapshot-journal-old", part=PART)
    assert [topic.name for topic in topics.list()] == ["events-bank", "journal-old"]


def test_an_unknown_topic_names_what_creates_it(log: EmbeddedLog) -> None:
    topics = JournalTopics(log, JournalSettings())
    topics.create("banks")
    with pytest.raises(UnknownJournal, match=r"Did you mean journal-banks\? Create them with `headwater journal create bank`"):
        topics.find("bank")


def test_on_kafka_the_owner_of_a_topic_numbers_events(log: EmbeddedLog) -> None:
    topics = JournalTopics(log, JournalSettings())
    owned, _ = topics.create("bank")
    found = msgspec.structs.replace(owned, settings=TopicSettings())
    log.engine = "kafka"
    assert (topics.writers(owned), topics.writers(found)) == ("owner", "shared")


def test_a_topic_that_somebody_has_made_under_such_a_name_holds_no_journals(log: EmbeddedLog) -> None:
    log.create_topic("journal-bank")
    topics = JournalTopics(log, JournalSettings())
    assert topics.list() == []
    with pytest.raises(AlreadyExists, match="journal has not made it"):
        topics.create("bank")
    with pytest.raises(UnknownJournal, match="holds no journals"):
        topics.find("bank")
