"""Another producer writes into a claimed partition on a real Kafka, with headers of ours or with junk.

The owner and the folds go by one rule: whatever the owner was acknowledged for, folds count, and nothing stops either of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_raw import produce_raw, wait_for_topic
from prometheus_client.parser import text_string_to_metric_families

from headwater.core.errors import BadInput, Fenced
from headwater.core.metrics import Metrics
from headwater.log import Record
from headwater.log.epochs import CLAIM, EPOCH, mark
from headwater.log.kafka.check import check
from headwater.log.kafka.log import KafkaLog
from headwater.log.kafka.records import UNREADABLE
from headwater.testing.log_ground import PATIENCE, at, counted, fresh, numbered
from headwater.testing.log_reading import rows

pytestmark = pytest.mark.service("kafka")
HIGHEST = (1 << 64) - 1
Headers = Sequence[tuple[str, bytes | None]]


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as log:
        yield log


@pytest.fixture
def topic(log: KafkaLog) -> str:
    return log.create_topic(fresh("topic")).name


class Foreign:
    """A producer that is not ours."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": kafka})

    def put(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        self._producer.produce(self._topic, value, key, 0, headers=list(headers))
        assert not self._producer.flush(PATIENCE)


@pytest.fixture
def foreign(kafka: str, topic: str) -> Foreign:
    return Foreign(kafka, topic)


def scanned(log: KafkaLog, topic: str, start: int, end: int) -> list[Record]:
    return [record for batch in log.scan(topic, 0, start, end) for record in rows(batch)]


JUNK: list[tuple[bytes | None, bytes | None, Headers]] = [
    (b"k", b"v", [(CLAIM, mark(10**6))]),
    (b"k", b"v", [(CLAIM, mark(2))]),
    (b"k", b"", [(CLAIM, mark(2))]),
    (b"", None, [(CLAIM, mark(2))]),
    (None, b"", [(CLAIM, mark(2))]),
    (None, None, [(CLAIM, mark(10**6))]),
    (None, None, [(CLAIM, mark(HIGHEST))]),
    (None, None, [(CLAIM, mark(0))]),
    (None, None, [(CLAIM, None)]),
    (None, None, [(CLAIM, b"")]),
    (None, None, [(CLAIM, b"x")]),
    (None, None, [(CLAIM, b"123456789")]),
    (None, None, [(CLAIM, mark(2)), (CLAIM, mark(2))]),
    (None, None, [(CLAIM, mark(2)), (EPOCH, mark(2))]),
    (None, None, []),
    (b"k", b"v", []),
    (b"k", b"v", [(EPOCH, mark(10**6))]),
    (b"k", b"v", [(EPOCH, mark(HIGHEST))]),
    (b"k", b"v", [(EPOCH, mark(0))]),
    (b"k", b"v", [(EPOCH, None)]),
    (b"k", b"v", [(EPOCH, b"")]),
    (b"k", b"v", [(EPOCH, b"1234567")]),
    (b"k", b"v", [(EPOCH, b"x" * 5000)]),
    (b"k", b"v", [(EPOCH, mark(1)), (EPOCH, mark(1))]),
    (b"k", b"v", [("headwater.mode", b"\xff"), ("headwater.mode", None), ("headwater.mode", b"")]),
]


def test_junk_in_a_claimed_partition_stops_nobody_and_counts_for_nothing(log: KafkaLog, topic: str, foreign: Foreign) -> None:
    writer, kept = log.claim(topic, 0), list[Record]()
    for number, (key, value, headers) in enumerate(JUNK):
        foreign.put(key, value, headers)
        records = numbered(1, start=number)
        kept += at(records, writer.append(records))
    assert counted(log, topic) == kept
    successor = log.claim(topic, 0)
    assert successor.epoch > writer.epoch
    kept += at(numbered(1), successor.append(numbered(1)))
    assert counted(log, topic) == kept


@pytest.mark.parametrize("before", [0, 1, 150])
def test_a_claim_of_the_highest_epoch_locks_nobody_out(log: KafkaLog, topic: str, foreign: Foreign, before: int) -> None:
    """Wherever it lies: as the last record, or so far back that a claimant does not read it."""
    for epoch in (HIGHEST, 10**12):
        foreign.put(None, None, [(CLAIM, mark(epoch))])
        foreign.put(b"k", b"v", [(EPOCH, mark(epoch))])
    kept = at(numbered(before), log.append(topic, 0, numbered(before))) if before else []
    writer = log.claim(topic, 0)
    kept += at(numbered(2), writer.append(numbered(2)))
    assert [record for record in counted(log, topic) if record.key != b"k"] == kept


def test_a_forged_claim_that_is_like_a_true_one_fences_the_owner_before_anything_is_lost(
    log: KafkaLog, topic: str, foreign: Foreign
) -> None:
    """Nobody can tell it from a claim of ours. The owner is not acknowledged for what folds leave out, and can claim again."""
    writer = log.claim(topic, 0)
    kept = at(numbered(1), writer.append(numbered(1)))
    foreign.put(None, None, [(CLAIM, mark(log.bounds(topic, 0).end + 1))])
    with pytest.raises(Fenced):
        writer.append(numbered(1))
    kept += at(numbered(1), log.claim(topic, 0).append(numbered(1)))
    assert counted(log, topic) == kept


def test_a_forged_record_of_a_higher_epoch_fences_the_owner_as_a_claim_does(log: KafkaLog, topic: str, foreign: Foreign) -> None:
    """A fold that begins behind the owner's claim could not tell it from a record of the owner's successor."""
    writer = log.claim(topic, 0)
    writer.append(numbered(1))
    foreign.put(b"k", b"v", [(EPOCH, mark(log.bounds(topic, 0).end))])
    with pytest.raises(Fenced):
        writer.append(numbered(1))
    successor = log.claim(topic, 0)
    assert counted(log, topic)[-1:] != at(numbered(1), offsets := successor.append(numbered(1)))
    assert counted(log, topic)[-1:] == at(numbered(1), offsets)


def test_foreign_records_are_counted_and_shown_with_their_offsets(kafka: str, topic: str, foreign: Foreign) -> None:
    metrics = Metrics()
    with KafkaLog(kafka, metrics=metrics.log) as log:
        log.append(topic, 0, numbered(2))
        writer = log.claim(topic, 0)  # at 2
        for _ in range(3):
            foreign.put(b"k", b"v")  # at 3, 4 and 5
        writer.append(numbered(1))  # at 6
        foreign.put(None, None, [(CLAIM, b"junk")])  # at 7
        successor = log.claim(topic, 0)  # at 8
        foreign.put(b"k", b"v", [(EPOCH, mark(writer.epoch))])  # at 9: as a replaced writer leaves it
        successor.append(numbered(1))  # at 10
        found = check(log, topic, 0)
    assert (found.start, found.end, found.records, found.epoch) == (0, 11, 11, successor.epoch)
    assert (found.counted, found.claims, found.stale, found.foreign) == (4, 2, 1, 4)
    assert (found.foreign_offsets, found.stale_offsets) == (((3, 5), (7, 7)), ((9, 9),))
    (family,) = [one for one in text_string_to_metric_families(metrics.render().decode()) if one.name == "headwater_log_foreign_records"]
    assert [(sample.labels, sample.value) for sample in family.samples if sample.name.endswith("_total")] == [({"topic": topic}, 4.0)]


def test_a_writer_of_a_topic_that_was_made_anew_is_fenced(kafka: str, log: KafkaLog, topic: str) -> None:
    """Its epoch is far above what the new topic's offsets allow: a record of it must not hide the new owner's."""
    log.append(topic, 0, numbered(50))
    old = log.claim(topic, 0)
    old.append(numbered(3))
    with KafkaLog(kafka) as other:
        other.delete_topic(topic)
        other.create_topic(topic)
        new = other.claim(topic, 0)
        kept = at(numbered(1), new.append(numbered(1)))
        with pytest.raises(Fenced):
            old.append(numbered(1))
        kept += at(numbered(1), new.append(numbered(1)))
        assert counted(other, topic) == kept
        kept += at(numbered(1), log.claim(topic, 0).append(numbered(1)))
        assert counted(other, topic) == kept


def test_a_claim_in_a_transaction_that_is_aborted_is_the_same_for_owner_and_fold(kafka: str, log: KafkaLog, topic: str) -> None:
    writer = log.claim(topic, 0)
    kept = at(numbered(1), writer.append(numbered(1)))
    theirs = Producer({"bootstrap.servers": kafka, "transactional.id": fresh("transaction")})
    theirs.init_transactions(PATIENCE)
    theirs.begin_transaction()
    theirs.produce(topic, None, None, 0, headers=[(CLAIM, mark(3))])
    theirs.flush(PATIENCE)
    with pytest.raises(Fenced):
        writer.append(numbered(1))
    theirs.abort_transaction(PATIENCE)
    kept += at(numbered(2), log.claim(topic, 0).append(numbered(2)))
    assert counted(log, topic) == kept


def test_a_compacted_topic_says_why_it_cannot_be_claimed(kafka: str, log: KafkaLog) -> None:
    name, admin = fresh("compacted"), AdminClient({"bootstrap.servers": kafka})
    (made,) = admin.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": "compact"})]).values()
    made.result(PATIENCE)
    wait_for_topic(kafka, name)
    with pytest.raises(BadInput) as refused:
        log.claim(name, 0)
    assert "cleanup.policy" in refused.value.hint
    assert log.bounds(name, 0).end == 0


# -- headers that the log's own form does not take ----------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [[("n" * 70_000, b"x"), ("kept", b"1")], [("kept", b"1"), *((f"{number}", b"") for number in range(66_000))]]
)
def test_headers_beyond_every_limit_stop_no_reader(log: KafkaLog, topic: str, foreign: Foreign, headers: Headers) -> None:
    foreign.put(b"k", b"v", headers)
    log.append(topic, 0, numbered(1))
    first, second = log.read(topic, 0, 0)
    assert (first.key, first.value) == (b"k", b"v")
    assert ("kept", b"1") in first.headers
    assert scanned(log, topic, 0, 2) == [first, second]


def test_a_header_name_that_is_no_text_stops_nobody(kafka: str, log: KafkaLog, topic: str) -> None:
    writer = log.claim(topic, 0)
    kept = at(numbered(1), writer.append(numbered(1)))
    produce_raw(kafka, topic, b"k", b"v", [(b"\xff\xfe", b"x"), (b"seen", b"1")])
    kept += at(numbered(1), writer.append(numbered(1)))
    (found,) = log.read(topic, 0, 2, limit=1)
    assert (found.key, found.value, found.headers) == (b"k", b"v", ((UNREADABLE, None),))
    assert scanned(log, topic, 2, 3) == [found]
    assert counted(log, topic) == kept
