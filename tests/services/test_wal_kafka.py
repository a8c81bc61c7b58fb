"""Regions on a real Kafka: brokers that die, owners that stand still, and producers that are none of ours."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tools.services.private import PrivateServers

from headwater.cluster.kafka import KafkaOwnership
from headwater.core.clock import SystemClock
from headwater.core.errors import Damaged, NotOwner
from headwater.log.epochs import CLAIM, EPOCH, mark
from headwater.log.kafka.log import KafkaLog
from headwater.testing.log_ground import PATIENCE, fresh
from headwater.testing.wal_ground import rows
from headwater.testing.wal_history import RegionHistory, live
from headwater.wal.layout import RecordKind, encode_key, encode_meta_key
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics
from headwater.wal.settings import RegionSettings, WalSettings

OWNER = Path(__file__).with_name("wal_owner.py")


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as log:
        yield log


@pytest.fixture
def topics(log: KafkaLog) -> RegionTopics:
    made = RegionTopics(fresh("wal").replace("_", "-"), 7)
    create_region(log, made)
    return made


def here(log: KafkaLog, topics: RegionTopics, group: str, work: Callable[[Region], Awaitable[None]], *, take_over: bool = False) -> None:
    async def run() -> None:
        with KafkaOwnership(log, group=group, session=6.0) as owners:
            region = await open_region(log, owners, topics, take_over=take_over)
            await work(region)
            await region.close()

    asyncio.run(run())


def test_a_broker_that_dies_takes_nothing_along(private_servers: PrivateServers) -> None:
    """Ten callers on ten tables go on while one of three brokers is killed."""
    cluster, history, topics = private_servers.up("kafka", brokers=3), RegionHistory(), RegionTopics("wal", 7)
    with KafkaLog(cluster.kafka, timeout=20.0) as log:
        create_region(log, topics)
        group = fresh("owners")

        async def work(region: Region) -> None:
            await live(region, Random(1), history.hear, steps=3, name="before")
            living = asyncio.create_task(live(region, Random(2), history.hear, steps=12, name="during"))
            await asyncio.to_thread(cluster.kill, "broker-2")
            await living
            await live(region, Random(3), history.hear, steps=3, name="after")
            await history.check(region)

        here(log, topics, group, work)
        if log.bounds(topics.data, 0).start == 0:
            assert recover(log, topics).meta == full_scan(log, topics).meta
        here(log, topics, group, history.check)
        assert history.acknowledged > 50


@pytest.mark.parametrize("stands", ["idle", "in a clean", "stopped"])
def test_an_owner_that_stands_still_is_fenced_when_it_goes_on(log: KafkaLog, kafka: str, topics: RegionTopics, stands: str) -> None:
    group = fresh("owners")
    words = [sys.executable, str(OWNER), kafka, topics.namespace, str(topics.region), group, stands]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdin is not None
            assert owner.stdout.readline() == "standing\n"
            if stands == "stopped":  # the whole process, its member of the group included
                owner.send_signal(signal.SIGSTOP)

            async def refused(region: Region) -> None:
                raise AssertionError("it was opened")

            with pytest.raises(NotOwner, match="http://other:1"):
                here(log, topics, group, refused)

            async def taken(region: Region) -> None:
                assert await rows(region.scan()) == [(2, number, b"b") for number in range(4, 11)]
                assert await region.write(1, [b"new"]) == 11
                assert await region.write(2, [b"new"]) == 11
                assert owner.stdin is not None
                assert owner.stdout is not None
                owner.send_signal(signal.SIGCONT)
                owner.stdin.write("go on\n")
                owner.stdin.flush()
                told = [await asyncio.to_thread(owner.stdout.readline) for _ in range(3)]
                assert told == ["clean Fenced\n", "write Fenced\n", "snapshot Fenced\n"]
                assert await region.write(2, [b"new"]) == 12
                await region.clean()

            here(log, topics, group, taken, take_over=True)

            async def found(region: Region) -> None:
                expected = [(2, number, b"b") for number in range(4, 11)] + [(1, 11, b"new"), (2, 11, b"new"), (2, 12, b"new")]
                assert await rows(region.scan()) == expected

            here(log, topics, fresh("owners"), found)
        finally:
            owner.kill()


class Foreign:
    """A producer that is not ours."""

    def __init__(self, kafka: str) -> None:
        self._producer = Producer({"bootstrap.servers": kafka})

    def put(self, topic: str, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]] | None = None) -> None:
        self._producer.produce(topic, value, key, 0, headers=headers or [])
        assert not self._producer.flush(PATIENCE)


def test_records_of_foreign_producers_change_nothing(log: KafkaLog, kafka: str, topics: RegionTopics) -> None:
    foreign, group = Foreign(kafka), fresh("owners")
    entry = encode_key(RecordKind.ENTRY, 7, 1, 2)

    async def work(region: Region) -> None:
        await region.write(1, [b"a"])
        await region.snapshot()
        for key, value in ((b"key", b"value"), (entry, b"\0foreign"), (None, None), (encode_key(RecordKind.DROP, 7, 1, 2), b"\0")):
            foreign.put(topics.data, key, value)
            foreign.put(topics.data, key, value, [(CLAIM, b"12345678")])
            foreign.put(topics.data, key, value, [(EPOCH, mark(1))])
            foreign.put(topics.data, key, value, [(EPOCH, b"short")])
        for value in (b"junk", b"", b"\0"):
            foreign.put(topics.meta, encode_meta_key(7), value)
            foreign.put(topics.meta, b"junk", value)
        assert await region.write(1, [b"b"]) == 2
        await region.snapshot()

    here(log, topics, group, work)

    async def found(region: Region) -> None:
        assert recover(log, topics).meta == full_scan(log, topics).meta
        assert await rows(region.scan()) == [(1, 1, b"a"), (1, 2, b"b")]
        assert await region.write(1, [b"c"]) == 3

    here(log, topics, group, found)


def test_a_foreign_record_before_the_first_owner_is_named(log: KafkaLog, kafka: str, topics: RegionTopics) -> None:
    Foreign(kafka).put(topics.data, b"key", b"value")

    async def nothing(region: Region) -> None:
        raise AssertionError("it was opened")

    with pytest.raises(Damaged, match=f"Record 0 of {topics.data}"):
        here(log, topics, fresh("owners"), nothing)


def test_a_region_is_kept_on_as_many_brokers_as_it_says(kafka_cluster: str) -> None:
    topics = RegionTopics(fresh("wal").replace("_", "-"), 7)
    with KafkaLog(kafka_cluster) as log, KafkaOwnership(log, group=fresh("owners")) as owners:

        async def made() -> None:
            clock = SystemClock()
            manager = RegionManager(
                log, lambda: owners, topics.namespace, settings=WalSettings(), clock=clock, random=Random(1), metrics=WalMetrics()
            )
            assert await manager.create(topics.region, RegionSettings(replication=2))
            assert not await manager.create(topics.region, RegionSettings())
            await manager.aclose()

        asyncio.run(made())
    described = AdminClient({"bootstrap.servers": kafka_cluster}).list_topics(timeout=30).topics
    assert {len(described[topic].partitions[0].replicas) for topic in (topics.data, topics.meta)} == {2}
