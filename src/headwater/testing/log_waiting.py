"""The contract of waiting for what comes."""

from __future__ import annotations

import threading
import time

import pytest

from headwater.core.errors import Closed, UnknownPartition, UnknownTopic
from headwater.log import Log, Watching
from headwater.testing.log_ground import PATIENCE, Ground, OpenLog, at, fresh, numbered, together


def waited(watching: Watching, arrived: threading.Event, beyond: int) -> int:
    """The end, once it is greater: looked at, then waited for, as everybody does who waits."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        arrived.clear()
        if (end := watching.end()) > beyond:
            return end
        arrived.wait(PATIENCE)
    raise AssertionError("nothing came")


class Waiting(Ground):
    def test_who_waits_is_told_of_the_own_records_and_of_others(self, log: Log, another: OpenLog, topic: str) -> None:
        other, arrived = another(), threading.Event()
        with log.watch(topic, 0, arrived.set) as watching:
            assert watching.end() == 0
            for end, writer in enumerate([log, other] * 5, 1):
                writer.append(topic, 0, numbered(1))
                assert waited(watching, arrived, end - 1) == end

    def test_all_who_wait_are_told(self, log: Log, another: OpenLog, topic: str) -> None:
        events = [threading.Event() for _ in range(20)]
        watchings = [log.watch(topic, 0, event.set) for event in events]
        another().append(topic, 0, numbered(3))
        assert [waited(watching, event, 2) for watching, event in zip(watchings, events, strict=True)] == [3] * 20
        for watching in watchings:
            watching.close()

    def test_who_waits_no_more_is_not_told(self, log: Log, topic: str) -> None:
        left, arrived = threading.Event(), threading.Event()
        leaving, watching = log.watch(topic, 0, left.set), log.watch(topic, 0, arrived.set)
        leaving.close()
        leaving.close()
        left.clear()
        log.append(topic, 0, numbered(1))
        assert waited(watching, arrived, 0) == 1
        assert not left.is_set()
        watching.close()

    def test_a_partition_may_be_waited_for_again(self, log: Log, topic: str) -> None:
        for end in range(1, 4):
            arrived = threading.Event()
            with log.watch(topic, 0, arrived.set) as watching:
                log.append(topic, 0, numbered(1))
                assert waited(watching, arrived, end - 1) == end

    def test_partitions_are_told_apart(self, log: Log, another: OpenLog) -> None:
        topic = log.create_topic(fresh("topic"), partitions=3).name
        events = [threading.Event() for _ in range(3)]
        watchings = [log.watch(topic, number, event.set) for number, event in enumerate(events)]
        another().append(topic, 1, numbered(2))
        assert waited(watchings[1], events[1], 0) == 2
        assert [watching.end() for watching in watchings] == [0, 2, 0]
        for watching in watchings:
            watching.close()

    def test_what_is_not_there_cannot_be_waited_for(self, log: Log, topic: str) -> None:
        with pytest.raises(UnknownTopic):
            log.watch(fresh("nowhere"), 0, lambda: None)
        with pytest.raises(UnknownPartition):
            log.watch(topic, 1, lambda: None)

    @pytest.mark.parametrize("written", [True, False])
    @pytest.mark.parametrize("by", ["itself", "another"])
    def test_all_who_wait_are_told_that_the_topic_is_gone(self, log: Log, another: OpenLog, topic: str, written: bool, by: str) -> None:
        if written:
            log.append(topic, 0, numbered(1))
        events = [threading.Event() for _ in range(2)]
        watchings = [log.watch(topic, 0, event.set) for event in events]
        (log if by == "itself" else another()).delete_topic(topic)
        for watching, event in zip(watchings, events, strict=True):
            with pytest.raises(UnknownTopic):
                waited(watching, event, 1)
            watching.close()

    def test_a_topic_of_the_same_name_is_another_one(self, log: Log, another: OpenLog, topic: str) -> None:
        log.append(topic, 0, numbered(1))
        arrived, other = threading.Event(), another()
        with log.watch(topic, 0, arrived.set) as watching:
            other.delete_topic(topic)
            other.create_topic(topic)
            with pytest.raises(UnknownTopic):
                waited(watching, arrived, 1)
        other.append(topic, 0, numbered(2))
        with log.watch(topic, 0, arrived.set) as watching:
            assert waited(watching, arrived, 0) == 2

    def test_all_tails_end_when_the_topic_is_deleted(self, log: Log, another: OpenLog, topic: str) -> None:
        log.append(topic, 0, numbered(1))
        begun = threading.Barrier(3)

        def follow() -> None:
            deadline = time.monotonic() + PATIENCE
            tail = log.tail(topic, 0, 0, stopped=lambda: time.monotonic() > deadline)
            assert next(batch for batch in tail if batch) == at(numbered(1), [0])
            begun.wait(PATIENCE)
            with pytest.raises(UnknownTopic):
                for _ in tail:
                    pass

        def delete() -> None:
            begun.wait(PATIENCE)
            another().delete_topic(topic)

        together(follow, follow, delete)

    def test_closing_ends_all_waiting(self, open_log: OpenLog, topic: str) -> None:
        log, arrived = open_log(), threading.Event()
        log.append(topic, 0, numbered(1))
        watching, tail = log.watch(topic, 0, arrived.set), log.tail(topic, 0, 0, stopped=lambda: False)
        next(tail)
        arrived.clear()
        log.close()
        assert arrived.wait(PATIENCE)
        with pytest.raises(Closed):
            watching.end()
        with pytest.raises(Closed):
            next(tail)
        with pytest.raises(Closed):
            log.watch(topic, 0, lambda: None)
        watching.close()
