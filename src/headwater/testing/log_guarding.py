"""The contract of guards: an append that asks whether anything happened since its caller looked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headwater.core.errors import BadBounds, BadInput, Closed, Conflict, Fenced, HeadwaterError, OffsetGone, UnknownTopic, Unsupported
from headwater.log import Guard, Log, Record, TopicSettings
from headwater.log.epochs import CLAIM, EPOCH, unmarked
from headwater.testing.log_ground import Ground, OpenLog, at, counted, everything, fresh, numbered, together, unchanged

Append = Callable[..., Sequence[int]]


class RecordingCheck:
    """A guard's `check` that records the batches it is called with, without the engine's marks, and raises `error`, if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.shown: list[list[Record]] = []

    def __call__(self, records: Sequence[Record]) -> None:
        self.shown.append([unmarked(record) for record in records if CLAIM not in dict(record.headers)])
        if self.error is not None:
            raise self.error


def no_news(records: Sequence[Record]) -> None:
    """Refuses where a Writer's record, or one without a claim, lies behind the caller's offset."""
    if any(EPOCH in dict(record.headers) or not record.headers for record in records):
        raise Conflict("Somebody was first.", hint="Look again.")


def counting(log: Log, topic: str, append: Append, rounds: int) -> None:
    """Append the number that comes next, `rounds` times: right only where no other append comes between look and append."""
    for _ in range(rounds):
        while True:
            end = log.bounds(topic, 0).end
            number = len(counted(log, topic))
            if log.bounds(topic, 0).end != end:
                continue
            try:
                append([Record(b"k", b"%d" % number, timestamp=1)], guard=Guard(end, no_news))
                break
            except Conflict:
                continue


class Guarding(Ground):
    def test_a_guard_is_shown_what_came_since_the_caller_looked(self, log: Log, topic: str) -> None:
        writer = log.claim(topic, 0)
        first = writer.append(numbered(3))
        check = RecordingCheck()
        (offset,) = writer.append(numbered(1, start=3), guard=Guard(first[1], check))
        assert check.shown == [at(numbered(2, start=1), first[1:])]
        (last,) = writer.append(numbered(1, start=4), guard=Guard(offset + 1, check))
        assert check.shown[1:] == [[]]
        assert counted(log, topic) == at(numbered(5), [*first, offset, last])

    def test_a_refusal_is_the_guards_own_error_and_nothing_is_appended(self, log: Log, topic: str) -> None:
        writer = log.claim(topic, 0)
        offsets = writer.append(numbered(2))
        before = log.bounds(topic, 0)
        error = ValueError("not now")
        with pytest.raises(ValueError, match="not now") as raised:
            writer.append(numbered(5), guard=Guard(offsets[1], RecordingCheck(error)))
        assert raised.value is error
        assert log.bounds(topic, 0) == before
        assert counted(log, topic) == at(numbered(2), offsets)
        assert writer.append(numbered(1))[0] == before.end

    @pytest.mark.parametrize("kind", [Closed, UnknownTopic, Fenced, Conflict])
    def test_a_refusal_is_not_taken_for_an_error_of_the_log(self, log: Log, topic: str, kind: type[HeadwaterError]) -> None:
        writer = log.claim(topic, 0)
        end = log.bounds(topic, 0).end
        check = RecordingCheck(kind("as the guard says"))
        with pytest.raises(kind, match="as the guard says"):
            writer.append(numbered(1), guard=Guard(end, check))
        assert len(check.shown) == 1
        writer.append(numbered(1), guard=Guard(end, RecordingCheck()))

    def test_a_guard_looks_from_any_offset_that_is_there(self, log: Log) -> None:
        name = log.create_topic(fresh("topic"), settings=TopicSettings(segment=300)).name
        kept = [record for n in range(0, 40, 4) for record in at(numbered(4, start=n), log.append(name, 0, numbered(4, start=n)))]
        log.delete_before(name, 0, 10)
        writer = log.claim(name, 0)
        for first in (10, 17, 39):
            check = RecordingCheck(Conflict("only looking"))
            with pytest.raises(Conflict):
                writer.append(numbered(1), guard=Guard(first, check))
            assert check.shown == [kept[first:]]

    def test_an_offset_that_is_gone_or_not_there_yet_is_an_error(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(5))
        log.delete_before(topic, 0, 2)
        writer = log.claim(topic, 0)
        end = log.bounds(topic, 0)
        check = RecordingCheck()
        with pytest.raises(OffsetGone):
            writer.append(numbered(1), guard=Guard(1, check))
        with pytest.raises(BadBounds):
            writer.append(numbered(1), guard=Guard(end.end + 1, check))
        assert not check.shown
        assert log.bounds(topic, 0) == end

    @pytest.mark.parametrize("since", [2.0, True, "3", None])
    def test_what_is_no_offset_is_bad_input(self, log: Log, topic: str, since: Any) -> None:
        log.append(topic, 0, numbered(5))
        writer, check = log.claim(topic, 0), RecordingCheck()
        end = log.bounds(topic, 0)
        with pytest.raises(BadInput, match="no offset"):
            writer.append(numbered(1), guard=Guard(since, check))
        assert not check.shown
        assert log.bounds(topic, 0) == end

    def test_an_offset_too_far_back_is_an_error(self, log: Log, topic: str) -> None:
        writer = log.claim(topic, 0)
        (first, *_) = writer.append([Record(None, b"")] * 65_600)
        with pytest.raises(BadBounds, match="too far"):
            writer.append(numbered(1), guard=Guard(first, RecordingCheck()))
        (large, *_) = writer.append([Record(None, bytes(9 << 20))] * 6)
        writer.append([Record(None, bytes(9 << 20))] * 2)
        with pytest.raises(BadBounds, match="too far"):
            writer.append(numbered(1), guard=Guard(large, RecordingCheck()))

    def test_a_replaced_writer_is_fenced_whatever_its_guard_says(self, log: Log, another: OpenLog, topic: str) -> None:
        stale = log.claim(topic, 0)
        owner = another().claim(topic, 0)
        kept = at(numbered(1), owner.append(numbered(1)))
        with pytest.raises(Fenced):
            stale.append(numbered(2), guard=Guard(log.bounds(topic, 0).end, RecordingCheck()))
        assert counted(log, topic) == kept

    def test_a_guard_of_a_topic_that_was_created_again_is_fenced(self, log: Log, another: OpenLog, topic: str) -> None:
        """The new topic ends where the old one ended: its offsets alone do not tell the two apart."""
        generation = log.topic(topic).generation
        log.claim(topic, 0).append(numbered(3))
        end = log.bounds(topic, 0).end
        other = another()
        other.delete_topic(topic)
        other.create_topic(topic)
        other.claim(topic, 0).append(numbered(3, start=10))
        assert other.bounds(topic, 0).end == end
        writer, check = log.claim(topic, 0), RecordingCheck()
        with unchanged(other, topic), pytest.raises(Fenced, match="created again"):
            writer.append(numbered(1), guard=Guard(log.bounds(topic, 0).end, check, generation))
        assert not check.shown
        writer.append(numbered(1), guard=Guard(log.bounds(topic, 0).end, check, log.topic(topic).generation))
        assert check.shown == [[]]

    def test_of_threads_that_saw_the_same_end_one_appends(self, log: Log, topic: str) -> None:
        writer = log.claim(topic, 0)
        together(*[lambda: counting(log, topic, writer.append, 5)] * 4)
        assert [record.value for record in counted(log, topic)] == [b"%d" % number for number in range(20)]

    def test_a_guard_without_a_claim(self, log: Log, another: OpenLog, topic: str) -> None:
        """Two logs that share a partition without a claim, where the engine can keep it still."""
        if not self.guards:
            with pytest.raises(Unsupported, match="still"):
                log.append(topic, 0, numbered(1), guard=Guard(0, RecordingCheck()))
            assert everything(log, topic) == []
            return
        logs = [log, another()]
        together(
            *[
                lambda each=each: counting(each, topic, lambda records, guard: each.append(topic, 0, records, guard=guard), 10)
                for each in logs * 2
            ]
        )
        assert [record.value for record in everything(log, topic)] == [b"%d" % number for number in range(40)]
