"""The Kafka engine beside other clients of the same broker: transactions, topics and records that are not ours, claims, forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka_raw import foreign_topic

from headwater.core.errors import AlreadyExists, BadInput, Closed, OutcomeUnknown, ReadOnly, UnknownTopic, WrongEngine
from headwater.core.metrics import LogMetrics
from headwater.log import Bounds, Record, TopicSettings
from headwater.log.kafka.log import KafkaLog
from headwater.log.opening import LogAddress, open_log
from headwater.log.partitioner import partition_for
from headwater.testing.log_ground import PATIENCE, at, counted, everything, first_batch, fresh, numbered, tailed
from headwater.testing.log_reading import rows

pytestmark = pytest.mark.service("kafka")


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as log:
        yield log


@pytest.fixture
def topic(log: KafkaLog) -> str:
    return log.create_topic(fresh("topic")).name


def configs(kafka: str, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": kafka})
    (found,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in found.result(PATIENCE).items()}


# -- transactions -------------------------------------------------------------------------------------------


class Transactions:
    """Another client, which writes in transactions: each leaves a marker that takes an offset and is no record."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._topic, self._kafka = topic, kafka
        self._producer = Producer({"bootstrap.servers": kafka, "transactional.id": fresh("transaction")})
        self._producer.init_transactions(PATIENCE)

    def run(self, values: Sequence[bytes], *, commit: bool) -> None:
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(self._topic, value, partition=0)
        self._producer.flush(PATIENCE)
        before = self._end()
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while self._end() == before:  # the broker answers before it has written the marker
            assert time.monotonic() < deadline

    def _end(self) -> int:
        with KafkaLog(self._kafka, read_only=True) as log:
            return log.bounds(self._topic, 0).end


def test_markers_of_transactions_take_offsets_and_stop_no_reader(kafka: str, log: KafkaLog, topic: str) -> None:
    theirs = Transactions(kafka, topic)
    theirs.run([b"0", b"1"], commit=True)  # marker at 2
    theirs.run([b"3"], commit=False)  # marker at 4
    log.append(topic, 0, [Record(None, b"5")])
    theirs.run([b"6"], commit=True)  # marker at 7, the last offset
    assert log.bounds(topic, 0) == Bounds(0, 8)
    there = [0, 1, 3, 5, 6]
    for start in range(9):  # each of them ends, though no record is there at the end
        expected = [offset for offset in there if offset >= start]
        found = log.read(topic, 0, start)
        assert [record.offset for record in found] == expected
        assert [record.value for record in found] == [b"%d" % offset for offset in expected]
        for end in range(start, 9):
            scanned = [record.offset for batch in log.scan(topic, 0, start, end) for record in rows(batch)]
            assert scanned == [offset for offset in expected if offset < end]
    log.append(topic, 0, [Record(None, b"8")])
    assert [record.offset for record in tailed(log, topic, 2, 4)] == [3, 5, 6, 8]


def test_a_writer_sees_past_the_markers_of_others(kafka: str, log: KafkaLog, topic: str) -> None:
    theirs = Transactions(kafka, topic)
    theirs.run([b"0"], commit=True)
    writer = log.claim(topic, 0)
    theirs.run([b"x"], commit=True)
    theirs.run([b"y"], commit=False)
    offsets = writer.append(numbered(2))
    assert [record for record in counted(log, topic) if record.key] == at(numbered(2), offsets)


def test_the_end_is_the_high_watermark_while_a_transaction_is_open(kafka: str, log: KafkaLog, topic: str) -> None:
    """The last stable offset stays behind: whoever took it for the end would miss acknowledged records."""
    theirs = Producer({"bootstrap.servers": kafka, "transactional.id": fresh("transaction")})
    theirs.init_transactions(PATIENCE)
    theirs.begin_transaction()
    theirs.produce(topic, b"open", partition=0)
    theirs.flush(PATIENCE)
    assert list(log.append(topic, 0, numbered(1))) == [1]
    assert log.bounds(topic, 0) == Bounds(0, 2)
    assert [record.offset for record in log.read(topic, 0, 0)] == [0, 1]
    theirs.abort_transaction(PATIENCE)


# -- topics -------------------------------------------------------------------------------------------------


def test_a_topic_says_all_that_its_promises_need(kafka: str, log: KafkaLog) -> None:
    settings = TopicSettings(segment=5 << 20, period=60_000, max_record=1000)
    topic = log.create_topic(fresh("topic"), settings=settings)
    forever = str((1 << 63) - 1)
    expected = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.after.max.ms": forever,
        "message.timestamp.before.max.ms": forever,
        "segment.bytes": str(5 << 20),
        "segment.ms": "60000",
        "max.message.bytes": "2024",
        "min.insync.replicas": "1",
    }
    assert {name: value for name, value in configs(kafka, topic.name).items() if name in expected} == expected
    described = AdminClient({"bootstrap.servers": kafka}).list_topics(topic.name, PATIENCE).topics[topic.name]
    assert [len(partition.replicas) for partition in described.partitions.values()] == [1]


def test_a_segment_below_kafkas_least_is_shown_as_what_it_is(log: KafkaLog) -> None:
    name, asked = fresh("topic"), TopicSettings(segment=1000, max_record=1000)
    topic = log.create_topic(name, settings=asked)
    assert topic.settings == TopicSettings(segment=1 << 20, max_record=1000)
    assert log.create_topic(name, settings=asked) == topic


def test_the_largest_record_fits_into_the_smallest_segment(log: KafkaLog) -> None:
    topic = log.create_topic(fresh("topic"), settings=TopicSettings(segment=1000, max_record=3 << 20))
    assert topic.settings.segment >= 3 << 20
    largest = [Record(b"", b"x" * (3 << 20), timestamp=1)] * 3
    assert list(log.append(topic.name, 0, largest)) == [0, 1, 2]
    assert everything(log, topic.name) == at(largest, range(3))


def test_more_copies_than_brokers_are_refused(kafka: str) -> None:
    name = fresh("topic")
    with KafkaLog(kafka, replication=3) as log:
        with pytest.raises(BadInput, match="replication"):
            log.create_topic(name)
        with pytest.raises(UnknownTopic):
            log.topic(name)


def test_a_topic_that_others_have_made_is_used_as_it_is(kafka: str, log: KafkaLog) -> None:
    name = foreign_topic(kafka, 2)
    topic = log.topic(name)
    assert topic == log.create_topic(name, partitions=2)
    assert (topic.partitions, topic.settings.period) == (2, 604_800_000)
    theirs = Producer({"bootstrap.servers": kafka})
    theirs.produce(name, b"value", b"key", 1, headers=[("h", b"1"), ("headwater.mode", b"too long")], timestamp=5)
    theirs.flush(PATIENCE)
    assert log.read(name, 1, 0) == [Record(b"key", b"value", (("h", b"1"), ("headwater.mode", b"too long")), 5, 0, 0, 0)]
    largest = Record(b"", b"x" * topic.settings.max_record, timestamp=1)
    assert list(log.append(name, 0, [largest, *numbered(3)])) == [0, 1, 2, 3]
    assert everything(log, name) == at([largest, *numbered(3)], range(4))


@pytest.mark.parametrize("config", [{}, {"cleanup.policy": "compact", "min.compaction.lag.ms": str((1 << 63) - 1)}])
def test_a_topic_that_others_have_made_has_no_owner(kafka: str, log: KafkaLog, config: dict[str, str]) -> None:
    name = foreign_topic(kafka, 1, config)
    assert log.topic(name).settings.owner == ""
    with pytest.raises(AlreadyExists, match="the part wal has not made it"):
        log.create_topic(name, part="wal")
    log.append(name, 0, numbered(1))


def test_a_topics_owner_does_not_change_what_brokers_do_with_it(kafka: str, log: KafkaLog) -> None:
    mine, walls = log.create_topic(fresh("topic")).name, log.create_topic(f"{fresh('namespace')}_meta_1", part="wal").name
    one, other = configs(kafka, mine), configs(kafka, walls)
    assert {name for name in one if one[name] != other[name]} == {"min.compaction.lag.ms"}
    assert other["cleanup.policy"] == "delete"  # under which no broker looks at it


def test_small_limits_of_others_split_our_batches(kafka: str, log: KafkaLog) -> None:
    name = foreign_topic(kafka, 1, {"max.message.bytes": "3000"})
    records = [Record(b"%d" % n, b"x" * 1000, timestamp=1) for n in range(200)]
    assert list(log.append(name, 0, records)) == list(range(200))
    assert everything(log, name) == at(records, range(200))


@pytest.mark.parametrize("others", [3, 20_000])
def test_what_a_broker_refuses_is_not_there_and_of_the_others_it_is_said(kafka: str, log: KafkaLog, others: int) -> None:
    """Kafka's own topics take no time that is more than an hour ahead. Whether the refused record travels with others is the client's
    choice: alone, and what came in later requests is there, which is then said."""
    name = foreign_topic(kafka, 1, {"message.timestamp.after.max.ms": "3600000"})
    ahead = Record(b"ahead", b"", timestamp=4_102_444_800_000)
    rest = [Record(b"%d" % n, b"x" * 1000, timestamp=1) for n in range(others)]
    log.append(name, 0, numbered(1))
    with pytest.raises((BadInput, OutcomeUnknown), match="timestamp") as refused:
        log.append(name, 0, [ahead, *rest])
    assert b"ahead" not in [one.key for one in everything(log, name)]
    if refused.type is BadInput:
        assert list(log.append(name, 0, numbered(1))) == [1]
        assert everything(log, name) == at([*numbered(1), *numbered(1)], [0, 1])
    assert log.append(name, 0, numbered(1))


def test_the_brokers_own_topics_are_not_shown(kafka: str, log: KafkaLog, topic: str) -> None:
    Transactions(kafka, topic).run([b"x"], commit=True)  # makes __transaction_state
    assert [name for name in (each.name for each in log.topics()) if name.startswith("__")] == []
    with pytest.raises(UnknownTopic):
        log.topic("__transaction_state")


def test_a_tail_ends_when_its_topic_is_deleted(log: KafkaLog, topic: str) -> None:
    log.append(topic, 0, numbered(1))
    tail = log.tail(topic, 0, 0, stopped=lambda: False)
    assert first_batch(tail)[0].offset == 0
    log.delete_topic(topic)
    with pytest.raises(UnknownTopic):
        for _ in tail:
            pass


def test_other_clients_find_a_keys_partition_as_we_do(kafka: str, log: KafkaLog) -> None:
    name = log.create_topic(fresh("topic"), partitions=7).name
    theirs = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2"})
    keys = [b"key-%d" % n for n in range(50)] + [b"", b"a", "straße".encode(), bytes(range(256))]
    for key in keys:
        theirs.produce(name, b"value", key)
    theirs.flush(PATIENCE)
    placed = {record.key: number for number in range(7) for record in everything(log, name, number)}
    placed.pop(b"", None)  # this client takes an empty key for none, Java's does not
    assert placed == {key: partition_for(key, 7) for key in keys if key}


# -- the process --------------------------------------------------------------------------------------------


def test_a_forked_child_connects_anew(log: KafkaLog, topic: str) -> None:
    log.append(topic, 0, numbered(1))
    assert len(everything(log, topic)) == 1
    child = os.fork()
    if child == 0:
        status = 1
        try:
            log.append(topic, 0, numbered(1, start=1))
            status = 0 if len(everything(log, topic)) == 2 else 2
            log.close()
        finally:
            os._exit(status)
    assert _status(child) == 0
    log.append(topic, 0, numbered(1, start=2))
    assert everything(log, topic) == at(numbered(3), range(3))


@pytest.mark.parametrize("what", ["tail", "writer", "a closed log's tail"])
def test_a_forked_child_frees_what_its_parent_has_open(kafka: str, log: KafkaLog, topic: str, what: str) -> None:
    """To close a client of the parent there would hang or crash: its threads are the parent's."""
    with KafkaLog(kafka) as other:
        other.append(topic, 0, numbered(1))
        tail = other.tail(topic, 0, 0, stopped=lambda: False)
        first_batch(tail)
        held: list[object] = [other.claim(topic, 0) if what == "writer" else tail]
        if what == "a closed log's tail":
            other.close()
        del tail
        child = os.fork()
        if child == 0:
            status = 1
            try:
                held.clear()
                gc.collect()
                log.append(topic, 0, numbered(1, start=1))
                status = 0
            finally:
                os._exit(status)
        assert _status(child) == 0


def test_a_forked_child_uses_no_writer_and_no_tail_of_its_parent(log: KafkaLog, topic: str) -> None:
    writer = log.claim(topic, 0)
    tail = log.tail(topic, 0, 0, stopped=lambda: False)
    first_batch(tail)
    end = log.bounds(topic, 0).end
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            for use in (lambda: writer.append(numbered(1)), lambda: writer.delete_before(1), lambda: next(tail)):
                try:
                    use()
                except Closed as error:
                    refused += "process" in error.message
        finally:
            os._exit(refused)
    assert _status(child) == 3
    assert log.bounds(topic, 0).end == end
    writer.append(numbered(1))


def test_a_forked_child_does_not_free_its_parents_clients_as_garbage(kafka: str) -> None:
    """An error that was caught keeps the frames that it came through, and with them a client, until Python collects garbage."""
    gc.disable()
    try:
        with KafkaLog(kafka, read_only=True) as log:
            for _ in range(3):
                with pytest.raises(UnknownTopic):
                    log.topic(fresh("none"))
        child = os.fork()
        if child == 0:
            gc.collect()
            os._exit(0)
        assert _status(child) == 0
    finally:
        gc.enable()


def _status(child: int) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def test_a_forked_child_ends_by_itself(kafka: str, topic: str) -> None:
    """The parent's clients are in the child's memory, without their threads: to free them at the end would crash it."""
    program = f"""if True:
        import os, sys
        from headwater.log import Record
        from headwater.log.kafka.log import KafkaLog
        log = KafkaLog({kafka!r})
        writer = log.claim({topic!r}, 0)
        log.append({topic!r}, 0, [Record(b"k", b"v")]); log.read({topic!r}, 0, 0)
        child = os.fork()
        if not child:
            log.bounds({topic!r}, 0)
            sys.exit(0)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=False).returncode == 0


def test_appends_under_way_end_before_the_log_closes(kafka: str, topic: str) -> None:
    log = KafkaLog(kafka)
    writer = log.claim(topic, 0)
    outcomes: list[object] = []
    busy = threading.Barrier(5)

    def write() -> None:
        busy.wait(PATIENCE)
        try:
            while True:
                outcomes.append(list(writer.append(numbered(3))))
        except Closed:
            outcomes.append("closed")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    busy.wait(PATIENCE)
    while len(outcomes) < 20:
        time.sleep(0.005)
    log.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert outcomes.count("closed") == 4
    with KafkaLog(kafka) as again:
        offsets = [offset for outcome in outcomes if isinstance(outcome, list) for offset in outcome]
        assert sorted(offsets) == [record.offset for record in counted(again, topic)]


def test_closing_ends_tails_and_scans(kafka: str, topic: str) -> None:
    log = KafkaLog(kafka)
    log.append(topic, 0, numbered(10))
    tail, scan = log.tail(topic, 0, 0, stopped=lambda: False), log.scan(topic, 0, 0, batch=2)
    first_batch(tail), next(scan)
    log.close()
    with pytest.raises(Closed):
        next(tail)
    with pytest.raises(Closed):
        list(scan)


def test_a_log_for_reading_changes_nothing(kafka: str, log: KafkaLog, topic: str) -> None:
    log.append(topic, 0, numbered(2))
    with KafkaLog(kafka, read_only=True) as reader:
        assert everything(reader, topic) == everything(log, topic)
        for change in (
            lambda: reader.append(topic, 0, numbered(1)),
            lambda: reader.create_topic(fresh("topic")),
            lambda: reader.delete_topic(topic),
            lambda: reader.claim(topic, 0),
            lambda: reader.delete_before(topic, 0, 1),
        ):
            with pytest.raises(ReadOnly):
                change()
    assert len(everything(log, topic)) == 2


def test_a_log_is_opened_by_its_address(log: KafkaLog, topic: str) -> None:
    log.append(topic, 0, numbered(1))
    with open_log(log.address) as again:
        assert again.engine == "kafka"
        assert everything(again, topic) == everything(log, topic)


def test_appends_are_counted(kafka: str) -> None:
    metrics = LogMetrics()
    with KafkaLog(kafka, metrics=metrics) as log:
        topic = log.create_topic(fresh("topic")).name
        log.append(topic, 0, numbered(3))
        log.append(topic, 0, numbered(2))
        assert metrics.partition(topic, 0).end_offset == 5
        samples = {sample.name: sample.value for family in metrics.families() for sample in family.samples}
        assert samples["headwater_log_appended_records_total"] == 5
        log.delete_topic(topic)
        assert not [sample for family in metrics.families() for sample in family.samples if topic in sample.labels.values()]


def test_a_data_directory_is_marked_so_that_the_other_engine_refuses_it(kafka: str, tmp_path: Path) -> None:
    with open_log(LogAddress(engine="kafka", servers=kafka, path=str(tmp_path / "data"))) as log:
        assert not (tmp_path / "data").exists()
        log.create_topic(fresh("marked"))
    with pytest.raises(WrongEngine, match="belongs to the kafka engine"):
        open_log(LogAddress(path=str(tmp_path / "data")))


def test_a_log_that_was_closed_has_let_go_of_its_descriptors(kafka: str, log: KafkaLog, topic: str) -> None:
    """At once, not when Python next collects garbage: whoever opens a log for each piece of work would run out of them."""

    def used() -> None:
        with KafkaLog(kafka) as other:
            other.append(topic, 0, [Record(b"k", b"v")])
            other.topics()
            assert other.read(topic, 0, 0)

    used()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            used()
        assert len(os.listdir("/proc/self/fd")) <= before + 2
    finally:
        gc.enable()


def test_a_scan_of_large_records_comes_in_batches_that_fit_into_memory(kafka: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.log.kafka.log._SCANNED", 5000)
    sizes = [1, 2000, 2000, 1500, 9000, 0, 1, 4999, 1, 1]
    with KafkaLog(kafka) as log:
        log.append(topic, 0, [Record(b"k", b"x" * size) for size in sizes] + [Record(b"k", None)])
        batches = [[len(record.value or b"") for record in rows(batch)] for batch in log.scan(topic, 0, 0, batch=4)]
    assert batches == [[1, 2000, 2000], [1500], [9000], [0, 1, 4999], [1, 1, 0]]
