from __future__ import annotations

from typing import Any, cast

import pytest

from headwater.core.errors import BadInput, TooLarge
from headwater.log import Record
from headwater.log.kafka.records import RecordLimits
from headwater.log.kafka.sending import RecordSender
from headwater.log.record import Topic, TopicSettings
from headwater.testing.clock import ManualClock


class Described:
    """What is known of one topic, and what brokers would say if they were asked again."""

    def __init__(self, known: RecordLimits, now: RecordLimits) -> None:
        self.known, self.now, self.asked = known, now, 0

    def place(self, topic: str, partition: int) -> Topic:
        return Topic(topic, 1, TopicSettings(), "g")

    def limits(self, topic: str) -> RecordLimits:
        return self.known

    def get(self, topic: str) -> Topic:
        self.known, self.asked = self.now, self.asked + 1
        return self.place(topic, 0)


def sender(described: Described) -> RecordSender:
    return RecordSender(cast(Any, None), cast(Any, described), clock=ManualClock(), metrics=None)


def test_limits_that_others_have_raised_are_asked_for_before_a_record_is_refused() -> None:
    described = Described(RecordLimits(10), RecordLimits(1000))
    sender(described).check("t", [Record(b"k", b"x" * 100)])
    assert described.asked == 1


def test_a_record_beyond_the_limits_as_they_are_now_is_refused() -> None:
    described = Described(RecordLimits(10), RecordLimits(20))
    with pytest.raises(TooLarge):
        sender(described).check("t", [Record(b"k", b"x" * 100)])
    with pytest.raises(BadInput, match="Record 1 has no key"):
        sender(Described(RecordLimits(1000, True), RecordLimits(1000, True))).check("t", [Record(b"k", b"v"), Record(None, b"v")])
