"""The replicator on a real Kafka, on Spark, into SQLite and into a real Cassandra."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest
from quick_spark import quick
from tests.unit.journal.ground import POISON, appended, ground_at, held, purged, random_records

from headwater.cluster.kafka import KafkaOwnership
from headwater.core.clock import SystemClock
from headwater.core.settings import CassandraSettings
from headwater.journal.dead import quarantine
from headwater.journal.discovery import Discovery, JournalTopic, with_snapshots
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.keep import delete_copied
from headwater.journal.leader import GroupReplicatorLock
from headwater.journal.loop import ReplicatorLoop
from headwater.journal.open_topic import OpenTopic
from headwater.journal.rebuild import request_rebuild
from headwater.journal.replicate import RoundOutcome, Rounds
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.settings import JournalSettings
from headwater.journal.snapshot import SnapshotCriteria
from headwater.journal.store_address import StoreAddress, open_store
from headwater.journal.topics import PART
from headwater.journal.verify import verify_topic
from headwater.log.kafka.log import KafkaLog
from headwater.log.record import Record
from headwater.spark.lazy import LazySpark
from headwater.testing.clock import ManualClock
from headwater.testing.log_ground import fresh

pytestmark = [pytest.mark.spark, pytest.mark.service("kafka")]
EACH = 3000


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as opened:
        yield opened


@pytest.fixture(params=["sqlite", pytest.param("cassandra", marks=pytest.mark.service("cassandra"))])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> StoreAddress:
    if request.param == "sqlite":
        return StoreAddress(folder=tmp_path / "store")
    host, port = request.getfixturevalue("cassandra")
    return StoreAddress(cassandra=CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=fresh("replicated").replace("-", "_")))


def timed(records: Sequence[Record]) -> list[Record]:
    """A millisecond apart: Cassandra's tables have one row for each number and timestamp."""
    return [msgspec.structs.replace(record, timestamp=1_700_000_000_000 + number) for number, record in enumerate(records)]


def test_every_round_is_a_job_and_the_copy_is_what_the_log_says(log: KafkaLog, address: StoreAddress, tmp_path: Path) -> None:
    name = fresh("replicated")
    made = log.create_topic(name, partitions=2, part=PART)  # claims count
    topic = JournalTopic(name, 2, made.generation)
    writer = log.claim(name, 0, part=PART)  # a partition with an owner, and one that nobody has claimed
    random, outcomes, clock = Random(5), list[RoundOutcome](), SystemClock()
    writer.append(timed(random_records(random, EACH)))
    log.append(name, 0, [appended("stale", 1)], part=PART)  # of nobody who owns it: it does not count
    log.append(name, 1, timed([*random_records(random, EACH, "xyz"), POISON, *random_records(random, 10, "xyz")]), part=PART)
    with open_store(address) as store, KafkaOwnership(log, group=fresh("replicators")) as ownership:
        lock = GroupReplicatorLock(log, ownership, name)
        rounds = Rounds(log, store, address=address, spark=quick(), small=0, clock=clock, ends_java=True)
        loop = ReplicatorLoop(log, store, rounds, Discovery(log, (name,)), clock=clock, random=Random(1), lock=lock, copied=outcomes.append)
        try:
            assert lock.take()
            assert not loop.catch_up()
            [stopped] = loop.status().partitions
            assert stopped.problem is not None
            assert (stopped.partition, stopped.problem.offset) == (1, EACH)
            quarantine(log, topic, 1, EACH, why="test")
            assert loop.catch_up()
            assert {outcome.engine for outcome in outcomes} == {"spark"}
            spark = LazySpark(log.address, quick())
            verified = verify_topic(log, store, topic, address=address, spark=spark, large=1)
            verified.check()
            assert verified.engine == "spark"
            copy = store.partition(name, 0, topic.generation)
            assert copy is not None
            with copy.view() as view:
                assert view.ids()
                assert "stale" not in view.ids()
            with ground_at(tmp_path / "whole", clock) as other:
                for partition in range(2):
                    skip = (EACH,) if partition else ()
                    end = log.bounds(name, partition).end
                    task = PartitionTask(topic=name, partition=partition, generation=topic.generation, end=end, skip=skip)
                    assert copy_partition(log, other.store, task).problem is None
                assert held(store, topic) == held(other.store, topic)
            kept = delete_copied(log, store, topic, keep=1, now=clock.now_ms() + 60_000)
            if address.cassandra is not None:  # its nodes have not synced it yet
                assert kept == []
                assert [log.bounds(name, partition).start for partition in range(2)] == [0, 0]
                with open_store(address, clock=ManualClock(clock.now_ms() / 1000 + 3600, wakes=False)) as later:
                    kept = delete_copied(log, later, topic, keep=1, now=clock.now_ms() + 60_000)
            assert [one.partition for one in kept] == [0, 1]
            assert [one.start for one in kept] == [log.bounds(name, partition).start for partition in range(2)]
            assert all(one.start == one.durable + 1 for one in kept)
        finally:
            loop.close()


def test_snapshots_are_copied_by_jobs_and_the_rings_are_what_the_log_says(log: KafkaLog, address: StoreAddress) -> None:
    name = fresh("replicated")
    made = log.create_topic(name, partitions=2)
    topic, outcomes, clock = JournalTopic(name, 2, made.generation), list[RoundOutcome](), SystemClock()
    with open_store(address) as store:
        opened = OpenTopic(log, lambda: store, made, writers="shared", settings=JournalSettings(), clock=clock)
        rounds = Rounds(log, store, address=address, spark=quick(), small=0, clock=clock, ends_java=True)
        loop = ReplicatorLoop(log, store, rounds, Discovery(log, (name,)), clock=clock, random=Random(1), copied=outcomes.append)
        ids = [f"j{number}" for number in range(6)]
        try:
            for turn in range(3):
                for id in ids:
                    log.append(name, opened.place(id), [appended(id, turn + 1)])
                    saved(opened, id, turn + 1)
                    if turn == 1 and id < "j2":
                        log.append(name, opened.place(id), [purged(id), appended(id, 1)])
                        saved(opened, id, 1)
                expected = {id: [one.seq_nr for one in opened.snapshots(id).find(id, SnapshotCriteria())] for id in ids}
                assert expected[ids[-1]] == list(range(turn + 1, 0, -1))
                assert loop.catch_up()
                assert {id: [one.seq_nr for one in opened.snapshots(id).find(id, SnapshotCriteria())] for id in ids} == expected
                newest = opened.snapshots("j5").load("j5", SnapshotCriteria())
                assert newest is not None
                assert newest.payload == Payload(PayloadKind.JSON, b'{"n":%d}' % (turn + 1))
            assert {outcome.engine for outcome in outcomes} == {"spark"}
            verified = verify_topic(log, store, topic, address=address, spark=LazySpark(log.address, quick()), large=1)
            verified.check()
            assert sum(one.snapshots for one in verified.partitions) == sum(map(len, expected.values()))
            request_rebuild(log, topic)
            assert loop.catch_up()
            verify_topic(log, store, topic, address=address).check()
            [snapshots] = [one for one in with_snapshots(log, topic) if one.holds == "snapshots"]
            kept = delete_copied(log, store, snapshots, keep=1, now=clock.now_ms() + 60_000)
            assert all(one.start == one.durable + 1 for one in kept)
            assert [one.seq_nr for one in opened.snapshots("j5").find("j5", SnapshotCriteria())] == [3, 2, 1]
        finally:
            loop.close()


def saved(opened: OpenTopic, id: str, seq_nr: int) -> None:
    partition = opened.snapshots(id)
    living = partition.living(id)
    assert living is not None
    partition.save(id, seq_nr, Payload(PayloadKind.JSON, b'{"n":%d}' % seq_nr), living, ("host", "1.0"))


def test_a_cluster_copies_into_cassandra(log: KafkaLog, spark_master: str, cassandra: tuple[str, int], tmp_path: Path) -> None:
    keyspace = fresh("replicated").replace("-", "_")
    address = StoreAddress(cassandra=CassandraSettings(contact_points=(f"{cassandra[0]}:{cassandra[1]}",), keyspace=keyspace))
    name = fresh("replicated")
    topic = JournalTopic(name, 2, log.create_topic(name, partitions=2).generation)
    random, outcomes, clock = Random(6), list[RoundOutcome](), SystemClock()
    for partition, ids in enumerate(("abc", "xyz")):
        log.append(name, partition, timed(random_records(random, 1000, ids)))
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.driver.host": "127.0.0.1"}
    conf["spark.executorEnv.PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    with open_store(address) as store:
        rounds = Rounds(log, store, address=address, spark=quick(spark_master, **conf), small=0, clock=clock, ends_java=True)
        loop = ReplicatorLoop(log, store, rounds, Discovery(log, (name,)), clock=clock, random=Random(1), copied=outcomes.append)
        try:
            assert loop.catch_up()
            assert {outcome.engine for outcome in outcomes} == {"spark"}
            verify_topic(log, store, topic, address=address).check()
        finally:
            loop.close()
