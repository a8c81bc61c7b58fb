"""The search for a partition's newest claim finds what a fold of everything finds, and reads no more than it must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import OffsetGone
from headwater.log.epochs import CLAIM, EPOCH, Epochs, epoch_at, mark
from headwater.log.kafka.claims import KafkaClaims
from headwater.log.record import Bounds, Header, Topic, TopicSettings

TOPIC = Topic("t", 1, TopicSettings(), "generation")


class StoredMessage:
    """A record as the client gives it, as far as claims look at it."""

    def __init__(self, offset: int, headers: list[Header], *, empty: bool) -> None:
        self._offset, self._headers, self._value = offset, headers, None if empty else b"v"

    def __len__(self) -> int:
        return len(self._value or b"")

    def offset(self) -> int:
        return self._offset

    def headers(self) -> list[Header]:
        return self._headers

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> None:
        return None


class Partition:
    """What a broker holds. `read` counts the records that were given."""

    def __init__(self, messages: list[StoredMessage], start: int = 0) -> None:
        self.messages, self.start, self.read = messages, start, 0

    def bounds(self, topic: str, partition: int) -> Bounds:
        return Bounds(self.start, len(self.messages))

    def between(self, topic: str, partition: int, start: int, end: int) -> Iterator[Any]:
        if start < self.start:
            raise OffsetGone("gone")
        for message in self.messages[start:end]:
            self.read += 1
            yield message

    def claims(self) -> KafkaClaims:
        return KafkaClaims(self.bounds, self.between)

    def add(self, count: int, *headers: Header, empty: bool = False) -> None:
        self.messages += [StoredMessage(len(self.messages) + n, list(headers), empty=empty) for n in range(count)]

    def claim(self) -> int:
        epoch = epoch_at(len(self.messages), TOPIC.generation)
        self.add(1, (CLAIM, mark(epoch)), empty=True)
        return epoch


def plain(count: int) -> Partition:
    partition = Partition([])
    partition.add(count)
    return partition


def test_a_partition_without_marks_has_no_claim() -> None:
    assert plain(0).claims().newest(TOPIC, 0) == plain(5000).claims().newest(TOPIC, 0) == 0


def test_only_what_lies_behind_the_claim_is_read() -> None:
    partition = plain(20_000)
    epoch = partition.claim()
    partition.add(500, (EPOCH, mark(epoch)))
    claims = partition.claims()
    assert claims.newest(TOPIC, 0) == epoch
    assert partition.read <= 1000
    partition.read = 0
    partition.add(10, (EPOCH, mark(epoch)))
    assert claims.newest(TOPIC, 0) == epoch
    assert partition.read == 10


def test_a_stale_writers_records_at_the_end_do_not_hide_a_newer_claim() -> None:
    partition = plain(10)
    stale = partition.claim()
    partition.add(3000, (EPOCH, mark(stale)))
    newer = partition.claim()
    partition.add(20_000, (EPOCH, mark(stale)))
    assert partition.claims().newest(TOPIC, 0) == newer


def test_what_is_deleted_while_it_is_read_is_not_needed() -> None:
    partition = plain(3000)
    epoch = partition.claim()
    partition.add(10, (EPOCH, mark(epoch)))
    claims, between = partition.claims(), partition.between

    def deleted(topic: str, number: int, start: int, end: int) -> Iterator[Any]:
        partition.start = 3005
        return between(topic, number, start, end)

    claims._messages = deleted
    assert claims.newest(TOPIC, 0) == epoch
    partition.start = len(partition.messages)
    assert claims.newest(TOPIC, 0) == epoch  # what was known stays known


headers = st.sampled_from([(), (CLAIM,), (EPOCH,), (CLAIM, EPOCH), (CLAIM, CLAIM)])


@given(st.lists(st.tuples(headers, st.integers(0, 160), st.booleans()), max_size=30), st.integers(0, 10), st.integers(0, 30))
def test_any_partition_tells_what_its_fold_tells(written: list[tuple[tuple[str, ...], int, bool]], start: int, seen: int) -> None:
    partition = Partition([])
    for names, number, empty in written:
        partition.add(1, *((name, mark(number << 14)) for name in names), empty=empty)
    partition.start = min(start, len(written))
    fold = Epochs()
    for message in partition.messages[partition.start :]:
        fold.kind(message.value() is None, message.headers(), message.offset())
    assert partition.claims().newest(TOPIC, 0) == fold.epoch
    everything, partition.messages = partition.messages, partition.messages[: max(seen, partition.start)]
    claims = partition.claims()
    claims.newest(TOPIC, 0)
    partition.messages = everything
    assert claims.newest(TOPIC, 0) == fold.epoch
