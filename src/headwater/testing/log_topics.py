"""The contract of topics."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import AlreadyExists, BadInput, UnknownTopic
from headwater.log import Bounds, Log, Topic, TopicSettings
from headwater.testing.log_ground import Ground, OpenLog, at, everything, fresh, numbered, together, unchanged

MIB = 1 << 20


class TopicTests(Ground):
    def test_a_topic_is_as_it_was_created(self, log: Log) -> None:
        name = fresh("topic")
        settings = TopicSettings(segment=3 * MIB, period=3_600_000, max_record=2 * MIB)
        topic = log.create_topic(name, partitions=3, settings=settings)
        assert (topic.name, topic.partitions, topic.settings) == (name, 3, settings)
        assert topic.generation
        assert log.topic(name) == topic
        assert [each for each in log.topics() if each.name == name] == [topic]
        assert [log.bounds(name, number) for number in range(3)] == [Bounds(0, 0)] * 3

    def test_a_topic_has_one_partition_and_the_usual_settings_unless_told(self, log: Log) -> None:
        topic = log.create_topic(fresh("topic"))
        assert (topic.partitions, topic.settings) == (1, TopicSettings())

    def test_topics_are_listed_by_name(self, log: Log) -> None:
        stem = fresh("listed")
        for ending in ("b", "a", "c"):
            log.create_topic(f"{stem}-{ending}")
        names = [topic.name for topic in log.topics()]
        assert names == sorted(names)
        assert [name for name in names if name.startswith(stem)] == [f"{stem}-a", f"{stem}-b", f"{stem}-c"]

    def test_the_same_again_is_returned_as_it_is(self, log: Log) -> None:
        name, settings = fresh("topic"), TopicSettings(max_record=5000)
        first = log.create_topic(name, partitions=2, settings=settings)
        log.append(name, 1, numbered(2))
        assert log.create_topic(name, partitions=2, settings=settings) == first
        assert log.bounds(name, 1) == Bounds(0, 2)

    @pytest.mark.parametrize(
        ("partitions", "settings"),
        [
            (1, TopicSettings(max_record=5000)),
            (3, TopicSettings(max_record=5000)),
            (3, None),
            (2, TopicSettings(max_record=5001)),
            (2, TopicSettings(max_record=5000, period=1000)),
            (2, TopicSettings(max_record=5000, segment=2 * MIB)),
        ],
    )
    def test_with_other_partitions_or_settings_it_exists_already(self, log: Log, partitions: int, settings: TopicSettings | None) -> None:
        name = fresh("topic")
        log.create_topic(name, partitions=2, settings=TopicSettings(max_record=5000))
        log.append(name, 0, numbered(1))
        with unchanged(log, name), pytest.raises(AlreadyExists) as refused:
            log.create_topic(name, partitions=partitions, settings=settings)
        assert name in refused.value.message
        assert refused.value.hint

    def test_without_settings_it_is_taken_with_those_it_has(self, log: Log) -> None:
        first = log.create_topic(fresh("topic"), partitions=2, settings=TopicSettings(max_record=5000))
        assert log.create_topic(first.name, partitions=2) == first

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "straße", "a\n", "a\0", "x" * 250])
    def test_an_unfit_name_is_refused(self, log: Log, name: str) -> None:
        with pytest.raises(BadInput):
            log.create_topic(name)
        assert name not in [topic.name for topic in log.topics()]
        with pytest.raises((BadInput, UnknownTopic)):
            log.topic(name)

    def test_the_longest_name_will_do(self, log: Log) -> None:
        name = fresh("longest").ljust(249, "x")
        log.create_topic(name)
        assert list(log.append(name, 0, numbered(2))) == [0, 1]
        log.delete_topic(name)

    @pytest.mark.parametrize("partitions", [0, -1, 4097, True, 2.0, "2"])
    def test_an_unfit_partition_count_is_refused(self, log: Log, partitions: Any) -> None:
        name = fresh("topic")
        with pytest.raises(BadInput):
            log.create_topic(name, partitions=partitions)
        with pytest.raises(UnknownTopic):
            log.topic(name)

    def test_an_unknown_topic_is_not_created_by_asking(self, log: Log) -> None:
        name = fresh("unknown")
        for ask in (
            lambda: log.topic(name),
            lambda: log.delete_topic(name),
            lambda: log.append(name, 0, numbered(1)),
            lambda: log.claim(name, 0),
            lambda: log.bounds(name, 0),
            lambda: log.read(name, 0, 0),
            lambda: list(log.scan(name, 0, 0)),
            lambda: next(log.tail(name, 0, 0, stopped=lambda: False)),
            lambda: log.offset_at(name, 0, 0),
            lambda: log.delete_before(name, 0, 0),
            lambda: log.compact(name, 0),
        ):
            with pytest.raises(UnknownTopic) as unknown:
                ask()
            assert name in unknown.value.message
        assert name not in [topic.name for topic in log.topics()]

    def test_a_deleted_topic_is_gone(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(3))
        log.delete_topic(topic)
        assert topic not in [each.name for each in log.topics()]
        for ask in (
            lambda: log.topic(topic),
            lambda: log.delete_topic(topic),
            lambda: log.bounds(topic, 0),
            lambda: log.read(topic, 0, 0),
            lambda: log.append(topic, 0, numbered(1)),
        ):
            with pytest.raises(UnknownTopic):
                ask()

    def test_a_topic_created_again_is_another_one(self, log: Log, topic: str) -> None:
        first = log.topic(topic)
        log.append(topic, 0, numbered(5))
        assert len(everything(log, topic)) == 5
        log.delete_topic(topic)
        second = log.create_topic(topic, partitions=2)
        assert second.generation != first.generation
        assert log.bounds(topic, 0) == Bounds(0, 0)
        records = numbered(2, start=70)
        assert list(log.append(topic, 0, records)) == [0, 1]
        assert everything(log, topic) == at(records, [0, 1])
        assert list(log.append(topic, 1, records)) == [0, 1]

    def test_another_log_sees_a_topic_come_and_go(self, log: Log, another: OpenLog, topic: str) -> None:
        other = another()
        log.append(topic, 0, numbered(3))
        assert other.topic(topic) == log.topic(topic)
        assert everything(other, topic) == everything(log, topic)
        other.append(topic, 0, numbered(1))
        log.delete_topic(topic)
        for ask in (lambda: other.topic(topic), lambda: other.bounds(topic, 0), lambda: other.append(topic, 0, numbered(1))):
            with pytest.raises(UnknownTopic):
                ask()
        log.create_topic(topic)
        records = numbered(2, start=9)
        assert list(other.append(topic, 0, records)) == [0, 1]
        assert everything(log, topic) == everything(other, topic) == at(records, [0, 1])

    def test_topics_survive(self, log: Log, another: OpenLog) -> None:
        topic = log.create_topic(fresh("topic"), partitions=2, settings=TopicSettings(max_record=7000))
        log.close()
        assert another().topic(topic.name) == topic

    def test_many_may_create_the_same_topic_at_once(self, log: Log, another: OpenLog) -> None:
        name, logs, made = fresh("topic"), [log, another(), another()], list[Topic]()
        together(*(lambda log=log: made.append(log.create_topic(name, partitions=2)) for log in logs))
        assert len(made) == 3
        assert len({topic.generation for topic in made}) == 1
