"""The Kafka engine while brokers die, hang and come back. Each test has brokers of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient
from tools.services.private import PrivateServers
from tools.services.running import Running

from headwater.client.local import LocalLog
from headwater.core.errors import Fenced, HeadwaterError, OutcomeUnknown, OwnedTopic, Timeout, Unreachable
from headwater.log import Record
from headwater.log.answers import Placed
from headwater.log.kafka.log import KafkaLog
from headwater.log.partitioner import partition_for
from headwater.log.record import Header
from headwater.testing.log_ground import PATIENCE, at, counted, everything, fresh, numbered

pytestmark = pytest.mark.service("kafka")


class Appending:
    """A thread that appends numbered records one batch after the other, and remembers which were acknowledged."""

    def __init__(self, append: Callable[[list[Record]], object]) -> None:
        self._append = append
        self._stop = threading.Event()
        self.acknowledged: dict[int, bytes] = {}  # offset to value
        self.unsure: list[Exception] = []
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        number = 0
        try:
            while not self._stop.is_set():
                records = [Record(b"k", b"%d" % (number + n), timestamp=1) for n in range(5)]
                number += 5
                try:
                    offsets = self._append(records)
                except (OutcomeUnknown, Timeout, Unreachable) as error:
                    self.unsure.append(error)
                    continue
                for offset, record in zip(offsets, records, strict=True):  # type: ignore[call-overload]
                    self.acknowledged[offset] = record.value or b""
        except BaseException as error:
            self.failure = error

    def more(self, count: int = 50) -> None:
        """Wait until so many more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_for(lambda: len(self.acknowledged) >= wanted or self.failure is not None)
        assert self.failure is None, self.failure

    def stop(self) -> None:
        self._stop.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        assert self.failure is None, self.failure


def wait_for(condition: Callable[[], bool], seconds: float = 2 * PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not happened in time"
        time.sleep(0.02)


@pytest.fixture
def broker(private_servers: PrivateServers) -> Running:
    return private_servers.up("kafka")


@pytest.fixture
def log(broker: Running) -> Iterator[KafkaLog]:
    with KafkaLog(broker.kafka, timeout=8.0) as log:
        yield log


def test_a_killed_broker_loses_nothing_that_was_acknowledged(broker: Running, log: KafkaLog) -> None:
    topic = log.create_topic(fresh("topic"), partitions=2).name
    owned = log.create_topic(f"{fresh('namespace')}_data_1", part="wal").name
    writer = log.claim(topic, 1)
    plain, claimed = Appending(lambda records: log.append(topic, 0, records)), Appending(writer.append)
    plain.more(), claimed.more()
    broker.kill("broker-1")
    with pytest.raises(Unreachable, match=broker.kafka) as unreachable:
        KafkaLog(broker.kafka, timeout=1.0).topics()
    assert "doctor" in unreachable.value.hint
    broker.restart("broker-1")
    plain.more(), claimed.more()  # the same log and the same writer go on
    plain.stop(), claimed.stop()
    with KafkaLog(broker.kafka) as other, pytest.raises(OwnedTopic, match="the part wal"):  # whose a topic is outlives all processes
        other.append(owned, 0, numbered(1))
    for number, appending in enumerate((plain, claimed)):
        there = {record.offset: record.value for record in everything(log, topic, number)}
        assert {offset: there.get(offset) for offset in appending.acknowledged} == appending.acknowledged
        in_order = [int(appending.acknowledged[offset]) for offset in sorted(appending.acknowledged)]
        assert in_order == sorted(in_order)
    counts = {record.offset for record in counted(log, topic, 1)}
    assert claimed.acknowledged.keys() <= counts
    log.claim(topic, 1)
    with pytest.raises(Fenced):
        writer.append(numbered(1))


@pytest.fixture
def hasty_log(broker: Running) -> Iterator[KafkaLog]:
    with KafkaLog(broker.kafka, timeout=3.0) as log:
        yield log


def test_what_is_left_of_an_append_that_was_given_up_is_its_beginning(broker: Running, hasty_log: KafkaLog) -> None:
    """The broker hangs for longer than an append waits, then goes on with what it still has in its buffers.

    The batch is longer than the client's queue: its front is given up before its rest has been handed over, which must not be sent then.
    """
    log = hasty_log
    topic = log.create_topic(fresh("topic")).name
    log.append(topic, 0, numbered(1))
    pid = broker.pid("broker-1")
    assert pid is not None
    large = [Record(b"%d" % n, b"x" * 100, timestamp=1) for n in range(120_000)]
    outcomes: list[Exception] = []

    def append() -> None:
        try:
            log.append(topic, 0, large)
        except OutcomeUnknown as error:
            outcomes.append(error)

    os.kill(pid, signal.SIGSTOP)
    try:
        appending = threading.Thread(target=append)
        appending.start()
        appending.join(PATIENCE)  # it takes 3 s, and some for the client to notice
    finally:
        os.kill(pid, signal.SIGCONT)
    appending.join(PATIENCE)
    assert not appending.is_alive()
    assert len(outcomes) == 1, "the append can have been neither acknowledged nor refused"
    last = log.append(topic, 0, [Record(b"last", b"", timestamp=1)])[0]  # the same log goes on
    records = everything(log, topic)
    assert records[-1].offset == last
    assert [record.key for record in records[1:-1]] == [record.key for record in large[: len(records) - 2]]


@contextmanager
def stopped(broker: Running) -> Iterator[None]:
    """The broker hangs meanwhile."""
    pid = broker.pid("broker-1")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class HangingSend(KafkaLog):
    """A log whose broker begins to hang when `armed` is set and records are about to be sent."""

    pid: int
    armed = False

    def send(self, topic: str, partition: int, records: Sequence[Record], mark: Header | None) -> Sequence[int]:
        if self.armed:
            os.kill(self.pid, signal.SIGSTOP)
        return super().send(topic, partition, records, mark)


def test_calls_to_a_broker_that_hangs_end_and_say_what_is_known(broker: Running) -> None:
    """Claim, append, append by key and delete: whatever their errors say holds when the broker goes on."""
    with HangingSend(broker.kafka, timeout=4.0) as log:
        log.pid = broker.pid("broker-1") or 0
        topic = log.create_topic(fresh("topic"), partitions=3).name
        writer = log.claim(topic, 0)
        kept = at(numbered(3), writer.append(numbered(3)))
        records = [record for record in numbered(30) if partition_for(record.key or b"", 3) != 0]

        async def by_key() -> list[Placed]:
            keyed = LocalLog(lambda: log)
            await keyed.append_by_key(topic, records)
            log.armed = True
            try:
                return await keyed.append_by_key(topic, records)
            finally:
                log.armed = False
                os.kill(log.pid, signal.SIGCONT)

        with pytest.raises(OutcomeUnknown, match=r"Partition \d: The outcome of an append"):
            asyncio.run(by_key())
        errors: list[HeadwaterError] = []
        with stopped(broker):
            for call in (lambda: writer.append(numbered(1, start=3)), lambda: writer.delete_before(2), lambda: log.claim(topic, 0)):
                with pytest.raises((OutcomeUnknown, Timeout, Unreachable)) as silent:
                    call()
                errors.append(silent.value)
        assert [record for record in counted(log, topic) if record.key != b"key-3"] == kept
        again = log.claim(topic, 0)
        with pytest.raises(Fenced):
            writer.append(numbered(1))
        offsets = again.append(numbered(1, start=9))
        assert counted(log, topic)[-1:] == at(numbered(1, start=9), offsets)
        there = [record for number in (1, 2) for record in everything(log, topic, number)]
        assert {record.key for record in there} == {record.key for record in records}


def test_three_brokers_keep_three_copies_and_go_on_with_two(private_servers: PrivateServers) -> None:
    cluster = private_servers.up("kafka", brokers=3)
    with KafkaLog(cluster.kafka, timeout=20.0) as log:
        topic = log.create_topic(fresh("topic"), partitions=3).name
        admin = AdminClient({"bootstrap.servers": cluster.kafka})
        found = admin.list_topics(topic, PATIENCE).topics[topic]
        assert [len(partition.replicas) for partition in found.partitions.values()] == [3, 3, 3]
        writer = log.claim(topic, 2)
        ways = [lambda records, n=n: log.append(topic, n, records) for n in (0, 1)]
        all_of_them = [*(Appending(way) for way in ways), Appending(writer.append)]
        for appending in all_of_them:
            appending.more()
        cluster.kill("broker-2")
        for appending in all_of_them:
            appending.more(200)
            appending.stop()
        for number, appending in enumerate(all_of_them):
            there = {record.offset: record.value for record in everything(log, topic, number)}
            assert {offset: there.get(offset) for offset in appending.acknowledged} == appending.acknowledged
        again = log.claim(topic, 2)
        assert again.epoch > writer.epoch
        offsets = again.append(numbered(2))
        assert counted(log, topic, 2)[-2:] == at(numbered(2), offsets)
