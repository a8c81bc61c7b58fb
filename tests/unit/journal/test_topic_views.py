from __future__ import annotations

from headwater.journal.requests import CreateJournals
from headwater.journal.topic_views import show_creation
from headwater.log.record import Topic, TopicSettings


def test_a_creation_that_is_only_tried_tells_whether_there_is_such_a_topic() -> None:
    request = CreateJournals(topic="bank", partitions=4, dry_run=True)
    assert show_creation("journal-bank", [], request).created
    there = Topic("journal-bank", 2, TopicSettings(), "g1")
    found = show_creation("journal-bank", [there], request)
    assert (found.created, found.partitions, found.generation) == (False, 2, "g1")
