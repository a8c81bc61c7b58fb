"""Encrypted journals on a real Kafka, their keys in a real Cassandra: what brokers and nodes hold, and what is left after an erasure."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.client.journal_performer import JournalPerformer
from headwater.client.journals import Journals
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import SystemClock
from headwater.core.errors import BadConfig, NotOwner
from headwater.core.settings import CassandraSettings, KafkaSettings, LogSettings, Settings, StoreSettings
from headwater.core.units import Duration
from headwater.journal.discovery import JournalTopic
from headwater.journal.envelope import MARK
from headwater.journal.key_address import key_address_of, open_keys
from headwater.journal.master_keys import new_master_key
from headwater.journal.range_fold import fold_batches
from headwater.journal.settings import JournalSettings
from headwater.journal.store_address import open_store, store_address_of
from headwater.log import Log
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.log_ground import fresh

pytestmark = [pytest.mark.service("kafka", "cassandra"), pytest.mark.anyio]
SECRET = "a-secret-that-is-searched-for"


@pytest.fixture
def settings(kafka: str, cassandra: tuple[str, int], tmp_path: Path) -> Iterator[Settings]:
    host, port = cassandra
    file = tmp_path / "master.keys"
    file.write_text(new_master_key("first"))
    keyspace = f"cipher_{uuid.uuid4().hex}"
    made = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=keyspace, timeout=Duration(60_000))
    yield Settings(
        data=tmp_path / "data",
        log=LogSettings(engine="kafka"),
        kafka=KafkaSettings(bootstrap=(kafka,)),
        store=StoreSettings(engine="cassandra"),
        cassandra=made,
        sections={"journal": JournalSettings(key_file=file)},
    )
    with Keyspace(made) as opened:
        opened.run(f"drop keyspace {keyspace}")


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Journals, Log]]:
    log = local_log(settings, settings.data, SystemClock())
    performer = JournalPerformer(log=log, settings=settings)
    try:
        yield Journals(LocalBackend(log, settings=settings, performers={"journal": performer})), await log.open()
    finally:
        await performer.aclose()
        await log.aclose()


def copied(log: Log, settings: Settings, topic: str) -> None:
    """Copy the topic into Cassandra, as the replicator does: without a key."""
    described = log.topic(topic)
    with open_store(store_address_of(settings, settings.data)) as store:
        for number in range(described.partitions):
            copy = store.partition(topic, number, described.generation)
            assert copy is not None
            start, end = copy.pointer().offset + 1, log.bounds(topic, number).end
            if end > start:
                place = JournalTopic(topic, described.partitions, described.generation)
                batches = log.scan(topic, number, start, end)
                folded = fold_batches(
                    topic=place.name, partition=number, generation=place.generation, start=start, end=end, batches=batches,
                    epoch=copy.pointer().epoch,
                )  # fmt: skip
                assert folded.poison is None
                copy.apply(folded.change)


def raw_values(kafka: str, topic: str, partitions: int) -> list[bytes]:
    """Every value of a topic, as another program reads it."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": fresh("raw"), "enable.auto.commit": False})
    found: list[bytes] = []
    for number in range(partitions):
        place = TopicPartition(topic, number, 0)
        low, high = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([TopicPartition(topic, number, low)])
        at = low
        while at < high:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is None:
                found.append(message.value() or b"")
                at = message.offset() + 1
            if consumer.position([place])[0].offset >= high:
                break
    consumer.close()
    return found


async def test_encrypted_copied_and_erased(settings: Settings, kafka: str) -> None:
    name = fresh("bank")
    async with opened(settings) as (journals, log):
        made = await journals.create(name, partitions=2, cipher="aes-256-gcm")
        assert (made.cipher, made.writers) == ("aes-256-gcm", "owner")
        bank = journals(name)
        await asyncio.gather(*(bank[f"id-{n}"].append({"s": SECRET, "n": n}, SECRET) for n in range(20)))
        await bank["id-0"].append("third", expected=2, idempotency_key="once")
        assert (await bank["id-0"].append("third", expected=2, idempotency_key="once")).replayed
        assert [event.payload async for event in bank["id-0"].read()] == [{"s": SECRET, "n": 0}, SECRET, "third"]
        await asyncio.to_thread(copied, log, settings, made.topic)
        assert [event.payload async for event in bank["id-0"].read(consistency="store")] == [{"s": SECRET, "n": 0}, SECRET, "third"]
        values = await asyncio.to_thread(raw_values, kafka, made.topic, 2)
        assert sum(MARK in value for value in values) == 21
        assert not any(SECRET.encode() in value for value in values)
        with Keyspace(settings.cassandra) as keyspace:
            rows = keyspace.run("select payload_type, payload_txt, payload_bin from journal")
            assert len(rows) == 41
            assert all(kind == "binary" and text is None and data.startswith(MARK) for kind, text, data in rows)
        keys = open_keys(key_address_of(settings, settings.data))
        (before,) = keys.store.keys(made.topic, ["id-0"])["id-0"]
        done = await bank["id-0"].erase(why="asked")
        assert (done.done, done.events, done.keys) == (True, 3, 1)
        assert not (await bank["id-0"].erase(why="asked")).done
        (after,) = keys.store.keys(made.topic, ["id-0"])["id-0"]
        assert (before.state, after.state, after.wrapped) == ("active", "destroyed", b"")
        keys.close()
        assert [event async for event in bank["id-0"].read()] == []
        await bank["id-0"].append("anew")
        await asyncio.to_thread(copied, log, settings, made.topic)
        assert [event.payload async for event in bank["id-0"].read(consistency="store")] == ["anew"]
        assert (await bank.verify()).journals == 20
        followed = [event async for event in _some(bank.follow(), 39)]
        assert sum(event.id == "id-0" for event in followed) == 1  # the new life alone
    async with opened(settings) as (journals, _):
        assert [event.payload async for event in journals(name)["id-1"].read()] == [{"s": SECRET, "n": 1}, SECRET]
        assert [event.payload async for event in journals(name)["id-0"].read()] == ["anew"]


async def _some(events: AsyncIterator[object], count: int) -> AsyncIterator[object]:
    for _ in range(count):
        yield await asyncio.wait_for(anext(events), 60)


async def test_another_process_reads_and_does_not_erase_what_it_does_not_own(settings: Settings) -> None:
    name = fresh("bank")
    async with opened(settings) as (owner, _), opened(settings) as (other, _):
        await owner.create(name, partitions=1, cipher="aes-256-gcm")
        await owner(name)["alice"].append("x")
        assert [event.payload async for event in other(name)["alice"].read()] == ["x"]
        with pytest.raises(NotOwner):
            await other(name)["alice"].erase(why="asked")
        assert [event.payload async for event in owner(name)["alice"].read()] == ["x"]  # nothing was begun
        await owner(name)["alice"].append("y")
        await owner(name)["alice"].erase(why="asked")
        assert [event async for event in other(name)["alice"].read()] == []


async def test_without_a_key(settings: Settings) -> None:
    name = fresh("bank")
    async with opened(settings) as (journals, _):
        await journals.create(name, partitions=1, cipher="aes-256-gcm")
        await journals(name)["alice"].append("x")
    bare = Settings(data=settings.data, log=settings.log, kafka=settings.kafka, store=settings.store, cassandra=settings.cassandra)
    async with opened(bare) as (journals, _):
        with pytest.raises(BadConfig):
            await journals(name)["alice"].append("y")
        with pytest.raises(BadConfig):
            assert [event async for event in journals(name)["alice"].read()]
        assert await journals(name)["alice"].pointer() == 1
