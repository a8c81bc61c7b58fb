from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from headwater.core.errors import Fenced
from headwater.log.kafka.identity import TopicIdentity
from headwater.log.kafka.topics import KafkaTopics
from headwater.log.record import Topic, TopicSettings
from headwater.testing.clock import ManualClock


class Described:
    """What brokers say of one topic."""

    def __init__(self) -> None:
        self.id, self.asked = "first", 0

    def get(self, name: str) -> Topic:
        return Topic(name, 1, TopicSettings(), self.id)

    def generation(self, name: str) -> Callable[[], str]:
        self.asked += 1
        return lambda: self.id


@pytest.fixture
def described() -> Described:
    return Described()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def identity(described: Described, clock: ManualClock) -> TopicIdentity:
    return TopicIdentity(cast(KafkaTopics, cast(Any, described)), clock, "t")


def test_an_answer_of_the_last_moment_will_do(identity: TopicIdentity, described: Described, clock: ManualClock) -> None:
    identity.check()
    assert described.asked == 0
    clock.advance(1.0)
    identity.check()
    identity.check()
    assert described.asked == 1


def test_another_topic_of_the_name_fences(identity: TopicIdentity, described: Described, clock: ManualClock) -> None:
    described.id = "second"
    clock.advance(1.0)
    for _ in range(2):  # a refusal is no confirmation
        with pytest.raises(Fenced, match="t was deleted and created again"):
            identity.check()


def test_an_answer_counts_from_when_it_was_asked_for(identity: TopicIdentity, described: Described, clock: ManualClock) -> None:
    clock.advance(1.0)
    answer = identity.begin()
    clock.advance(1.0)
    answer()
    identity.check()
    assert described.asked == 2
