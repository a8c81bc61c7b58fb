"""Claims on a real Kafka (rule P4): what lies in the partition, and the races that the contract suite cannot force."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer, TopicPartition

from headwater.core.errors import Fenced, OutcomeUnknown
from headwater.log import Record
from headwater.log.epochs import CLAIM, EPOCH, Epochs, epoch_at, mark
from headwater.log.kafka.log import KafkaLog, KafkaPartition
from headwater.log.kafka.writer import claim
from headwater.log.record import Header
from headwater.testing.log_ground import PATIENCE, at, counted, fresh, numbered

pytestmark = pytest.mark.service("kafka")


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as log:
        yield log


@pytest.fixture
def topic(log: KafkaLog) -> str:
    return log.create_topic(fresh("topic")).name


def test_a_claim_and_its_records_carry_their_epoch(log: KafkaLog, topic: str) -> None:
    log.append(topic, 0, numbered(2))
    writer = log.claim(topic, 0)
    writer.append([Record(b"k", b"v", (("h", b"1"),), timestamp=1)])
    claimed, written = log.read(topic, 0, 2)
    assert (claimed.key, claimed.value, claimed.headers) == (None, None, ((CLAIM, mark(writer.epoch)),))
    assert written.headers == (("h", b"1"), (EPOCH, mark(writer.epoch)))


def test_marks_that_were_copied_from_a_longer_log_are_not_believed(kafka: str, log: KafkaLog, topic: str) -> None:
    """A mirror may renumber records: the copied epochs are then above what the offsets allow. The records count as plain ones."""
    theirs = Producer({"bootstrap.servers": kafka})
    theirs.produce(topic, None, None, 0, headers=[(CLAIM, mark(epoch_at(5000, "")))])
    theirs.produce(topic, b"v", b"k", 0, headers=[(EPOCH, mark(epoch_at(5000, "")))])
    theirs.flush(PATIENCE)
    writer = log.claim(topic, 0)
    assert writer.epoch == epoch_at(2, log.topic(topic).generation)
    offsets = writer.append(numbered(1))
    copied, *own = counted(log, topic)
    assert (copied.key, copied.value, copied.headers, copied.offset) == (b"k", b"v", (), 1)
    assert own == at(numbered(1), offsets)


class Interrupted(KafkaPartition):
    """A partition in which something happens after the first record of a batch."""

    def __init__(self, log: KafkaLog, topic: str, happening: threading.Event, done: threading.Event) -> None:
        super().__init__(log, topic, 0)
        self._happening, self._done = happening, done

    def send(self, records: Sequence[Record], own: Header) -> Sequence[int]:
        if len(records) == 1:
            return super().send(records, own)
        first = super().send(records[:1], own)
        self._happening.set()
        assert self._done.wait(PATIENCE)
        return [*first, *super().send(records[1:], own)]


def test_a_claim_in_the_midst_of_a_batch_leaves_its_outcome_open(kafka: str, log: KafkaLog, topic: str) -> None:
    happening, done = threading.Event(), threading.Event()
    writer = claim(Interrupted(log, topic, happening, done), log._follower)

    def interrupt() -> None:
        with KafkaLog(kafka) as other:
            assert happening.wait(PATIENCE)
            other.claim(topic, 0)
            done.set()

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(OutcomeUnknown, match="first 1 of 3"):
        writer.append(numbered(3))
    other.join()
    assert [record.key for record in counted(log, topic)] == [b"key-0"]
    with pytest.raises(Fenced):
        writer.append(numbered(1))


def test_equal_claims_are_settled_by_who_came_first(kafka: str, log: KafkaLog, topic: str) -> None:
    """Both have seen the same end. The second one finds the first one's claim before its own, and claims again above it."""
    theirs = Producer({"bootstrap.servers": kafka})

    class Overtaken(KafkaPartition):
        overtaken = False

        def send(self, records: Sequence[Record], own: Header) -> Sequence[int]:
            if not self.overtaken:
                self.overtaken = True
                theirs.produce(topic, None, None, 0, headers=[own])  # another process with the same epoch
                theirs.flush(PATIENCE)
            return super().send(records, own)

    writer = claim(Overtaken(log, topic, 0), log._follower)
    assert writer.epoch > epoch_at(0, log.topic(topic).generation)
    offsets = writer.append(numbered(2))
    assert counted(log, topic) == at(numbered(2), offsets)


def test_a_writer_that_missed_records_gives_up(log: KafkaLog, kafka: str, topic: str) -> None:
    """Records that are deleted before they were seen may have held a claim."""
    writer = log.claim(topic, 0)
    writer.append(numbered(1))
    log._follower._consumer.pause([TopicPartition(topic, 0)])  # type: ignore[union-attr]
    with KafkaLog(kafka) as other:
        winner = other.claim(topic, 0)
        last = winner.append(numbered(5))[-1]
        other._topics.delete_before(topic, 0, last + 1)  # as the tools of the brokers do, without a mark that is left
        log._follower._consumer.resume([TopicPartition(topic, 0)])  # type: ignore[union-attr]
        with pytest.raises(Fenced):
            writer.append(numbered(1))
        epochs = Epochs(winner.epoch)
        winner.append(numbered(1))
        assert [record.key for record in counted(other, topic, epochs=epochs)] == [b"key-0"]


def test_a_dropped_writer_is_followed_no_longer(log: KafkaLog, topic: str) -> None:
    first = log.claim(topic, 0)
    second = log.claim(topic, 0)
    assert len(log._follower._followed) == 1
    del first
    assert len(log._follower._followed) == 1
    del second
    assert log._follower._followed == {}
