from __future__ import annotations

import pytest
from tests.unit.journal.ground import Ground

from headwater.core.errors import AlreadyExists
from headwater.journal.requests import CreateJournals
from headwater.journal.settings import JournalSettings
from headwater.journal.topic_views import show_creation
from headwater.journal.topics import JournalTopics


def test_a_creation_that_is_only_tried_answers_as_a_real_one(ground: Ground) -> None:
    topics = JournalTopics(ground.log, JournalSettings())
    for partitions in (0, 3):
        request = CreateJournals(topic=f"bank-{partitions}", partitions=partitions, dry_run=True)
        told = show_creation(topics, request)
        made, new = topics.create(request.topic, request.partitions)
        assert (told.created, told.topic, told.partitions) == (new, made.name, made.partitions)
        again = show_creation(topics, request)
        assert (again.created, again.partitions, again.generation, again.writers) == (False, made.partitions, made.generation, "owner")
    with pytest.raises(AlreadyExists, match="has 3 partitions, not 4"):
        show_creation(topics, CreateJournals(topic="bank-3", partitions=4, dry_run=True))
    ground.log.create_topic("journal-others")
    with pytest.raises(AlreadyExists, match="has not made it"):
        show_creation(topics, CreateJournals(topic="others", dry_run=True))


def test_a_topic_that_others_write_is_told_as_such(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.topic()
    topics = JournalTopics(ground.log, JournalSettings())
    monkeypatch.setattr(topics, "writers", lambda topic: "shared")  # as a topic of Kafka that kafka-journal has made
    assert show_creation(topics, CreateJournals(topic="bank", dry_run=True)).writers == "shared"
