from __future__ import annotations

import pytest
from tests.unit.wal.conftest import TOPICS

from headwater.core.errors import AlreadyExists, BadInput, Conflict, OwnedTopic
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import PART, RegionTopics


def test_a_region_is_created_once(log: EmbeddedLog) -> None:
    assert not create_region(log, TOPICS)
    assert create_region(log, RegionTopics("wal", 8))


def test_a_region_that_was_begun_with_other_settings_is_created(log: EmbeddedLog) -> None:
    topics = RegionTopics("wal", 30)
    log.create_topic(topics.meta, settings=TopicSettings(segment=4000), part=PART)  # then that process died
    assert create_region(log, topics, TopicSettings(segment=5000, disposal="secure-delete"))
    assert log.topic(topics.meta).settings.disposal == "secure-delete"
    other = RegionTopics("wal", 31)
    log.create_topic(other.meta, settings=TopicSettings(segment=4000), part=PART)
    log.append(other.meta, 0, [Record(b"k", b"v")], part=PART)  # the snapshots of a region whose log is lost
    with pytest.raises(Conflict, match="its log is lost"):
        create_region(log, other, TopicSettings(segment=5000))
    assert log.bounds(other.meta, 0).end == 1


def test_the_meta_topic_has_no_period_and_of_the_disposals_the_secure_ones(log: EmbeddedLog) -> None:
    for number, (given, kept) in enumerate((("secure-reset", "secure-reset"), ("truncate", "delete"), ("delete", "delete")), 20):
        topics, settings = RegionTopics("wal", number), TopicSettings(period="month", disposal=given)  # type: ignore[arg-type]
        assert create_region(log, topics, settings)
        assert not create_region(log, topics, settings)
        data, meta = log.topic(topics.data).settings, log.topic(topics.meta).settings
        assert (data.period, data.disposal, meta.period, meta.disposal) == ("month", given, 0, kept)
        with pytest.raises(AlreadyExists):
            create_region(log, topics, TopicSettings(period="day", disposal=given))  # type: ignore[arg-type]
    assert {topic.settings.owner for topic in log.topics()} == {"wal"}
    with pytest.raises(OwnedTopic):
        log.append(TOPICS.data, 0, [Record(b"k", b"v")])


def test_a_region_has_room_for_snapshots(log: EmbeddedLog) -> None:
    with pytest.raises(BadInput, match="max_record"):
        create_region(log, RegionTopics("wal", 9), TopicSettings(max_record=200))
    assert RegionTopics("wal", 9).data not in [topic.name for topic in log.topics()]
