"""Journals on a real Kafka: topics of ours have one owner who numbers events, and topics of others take events with their numbers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.until import until

from headwater.client.backend import Backend
from headwater.client.journal import Journal
from headwater.client.journal_performer import JournalPerformer
from headwater.client.journals import Journals
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import SystemClock
from headwater.core.errors import NotOwner, WrongExpected
from headwater.core.settings import KafkaSettings, LogSettings, Settings
from headwater.core.units import Duration
from headwater.journal.action import Append
from headwater.journal.append_draft import header_ending, plain_draft
from headwater.journal.chores import Chores
from headwater.journal.discovery import Discovery
from headwater.journal.event import Event, NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.idempotency import key_headers
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.replicator import replicator
from headwater.journal.settings import JournalSettings
from headwater.journal.store_address import open_store, store_address_of
from headwater.journal.wire import write_record
from headwater.log.epochs import EPOCH
from headwater.log.record import Record
from headwater.server.journal_expiry import OwnerExpiry
from headwater.testing.log_ground import PATIENCE, fresh

pytestmark = [pytest.mark.service("kafka"), pytest.mark.anyio]


@asynccontextmanager
async def opened(kafka: str, data: Path, address: str = "") -> AsyncIterator[tuple[Backend, JournalPerformer]]:
    settings = Settings(data=data, log=LogSettings(engine="kafka"), kafka=KafkaSettings(bootstrap=(kafka,)))
    log = local_log(settings, data, SystemClock())
    performer = JournalPerformer(log=log, settings=settings, address=address)
    try:
        yield LocalBackend(log, settings=settings, performers={"journal": performer}), performer
    finally:
        await performer.aclose()
        await log.aclose()


async def numbers(journal: Journal, **asked: Any) -> list[int]:
    return [event.seq_nr async for event in journal.read(**asked)]


async def test_the_owner_of_a_topic_numbers_its_events(kafka: str, tmp_path: Path) -> None:
    name = fresh("bank")
    async with opened(kafka, tmp_path) as (backend, _):
        journals = Journals(backend)
        made = await journals.create(name, partitions=2)
        assert made.writers == "owner"
        alice = journals(name)["alice"]
        first = await alice.append({"n": 1}, {"n": 2}, expected=0)
        assert (first.first, first.last) == (1, 2)
        outcomes = await asyncio.gather(*(alice.append("x", expected=2) for _ in range(5)), return_exceptions=True)
        assert sorted(type(one).__name__ for one in outcomes) == ["Appended", *["WrongExpected"] * 4]
        assert await numbers(alice) == await numbers(alice, consistency="mark") == [1, 2, 3]
        assert (await alice.delete(to=1)).to == 1
        assert await numbers(alice) == [2, 3]
        event = await anext(aiter(alice.read()))
        assert dict(event.headers) == {}  # those of the log reach no user
        async with opened(kafka, tmp_path / "other", "http://other:1") as (other, _):
            theirs = Journals(other)(name)["alice"]
            assert await numbers(theirs) == [2, 3]
            with pytest.raises(NotOwner):
                await theirs.append("y")
    async with opened(kafka, tmp_path) as (backend, performer):
        alice = Journals(backend)(name)["alice"]
        assert (await alice.append("z", expected=3)).first == 4
        with pytest.raises(WrongExpected):
            await alice.append("z", expected=3)
        log = (await performer.topics_open.find(name)).log
        partition = performer.topics_open.known(name).place("alice")  # type: ignore[union-attr]
        record = log.read(f"journal-{name}", partition, (await alice.mark()).offset or 0)[0]
        assert EPOCH in dict(record.headers)


async def test_a_key_that_a_fenced_owner_used_is_free_for_the_next_one(kafka: str, tmp_path: Path) -> None:
    """The first owner's producer delivers a record late: it lies behind the second one's claim, so its events are nowhere."""
    name = fresh("bank")
    async with opened(kafka, tmp_path) as (backend, performer):
        await Journals(backend).create(name, partitions=1)
        alice = Journals(backend)(name)["alice"]
        await alice.append({"n": 1}, idempotency_key="early")
        log = (await performer.topics_open.find(name)).log
        epoch = next(value for record in log.read(f"journal-{name}", 0, 0) for key, value in record.headers if key == EPOCH)
    async with opened(kafka, tmp_path) as (backend, _):
        alice = Journals(backend)(name)["alice"]
        assert (await alice.append({"n": 2})).first == 2
        sent = plain_draft("alice", {"n": 3})
        record = sent.record(3, header_ending(None, None), ((EPOCH, epoch), *key_headers("late", sent.digest(None))))
        late = Producer({"bootstrap.servers": kafka})
        late.produce(f"journal-{name}", record.value, record.key, 0, headers=list(record.headers))
        assert late.flush(PATIENCE) == 0
        assert await numbers(alice) == [1, 2]
    async with opened(kafka, tmp_path) as (backend, _):
        alice = Journals(backend)(name)["alice"]
        early = await alice.append({"n": 1}, idempotency_key="early")
        assert (early.first, early.replayed) == (1, True)
        again = await alice.append({"n": 3}, idempotency_key="late")
        assert (again.first, again.replayed) == (3, False)
        assert await numbers(alice) == [1, 2, 3]
        assert (await alice.append({"n": 3}, idempotency_key="late")).replayed


async def test_a_random_history_of_an_owned_topic_is_what_its_owners_wrote(kafka: str, tmp_path: Path) -> None:
    """Records of nobody who owns the topic lie between, and the copy is at any place."""
    name, random, ids = fresh("bank"), Random(12), ("a", "b", "c")
    model: dict[str, tuple[int, dict[int, int]]] = {}  # the last number, and payloads by number
    settings = Settings(data=tmp_path, log=LogSettings(engine="kafka"), kafka=KafkaSettings(bootstrap=(kafka,)))

    async def act(journal: Journal, step: int) -> None:
        last, events = model.get(journal.id, (0, {}))
        kind = random.random()
        if kind < 0.6:
            count = random.randint(1, 3)
            with pytest.raises(WrongExpected):
                await journal.append(step, expected=last + 1)
            made = await journal.append(*[step] * count, expected=last if random.random() < 0.5 else None)
            assert (made.first, made.last) == (last + 1, last + count)
            model[journal.id] = (last + count, {**events, **dict.fromkeys(range(made.first, made.last + 1), step)})
        elif kind < 0.8:
            to = random.randint(1, last + 2)
            assert (await journal.delete(to=to)).done is (last > 0)
            if last:
                model[journal.id] = (last, {number: payload for number, payload in events.items() if number > to})
        elif kind < 0.9:
            await journal.purge()
            model.pop(journal.id, None)
        else:
            await journal.mark()

    async def check(journals: Journals) -> None:
        for id in ids:
            last, events = model.get(id, (None, {}))
            assert await journals(name)[id].pointer() == last
            assert {event.seq_nr: event.payload async for event in journals(name)[id].read()} == events

    for owner in range(2):
        async with (
            opened(kafka, tmp_path, f"http://owner:{owner}") as (backend, performer),
            opened(kafka, tmp_path, "http://reader:1") as (other, _),
        ):
            if not owner:
                await Journals(backend).create(name, partitions=1)
            log = (await performer.topics_open.find(name)).log
            topic, generation = f"journal-{name}", log.topic(f"journal-{name}").generation
            for step in range(30 * owner, 30 * owner + 30):
                await act(Journals(backend)(name)[random.choice(ids)], step)
                if random.random() < 0.3:
                    payload_type, value = encode_events([NumberedEvent(1, Payload(PayloadKind.JSON, b"-1"))])
                    stale = write_record(random.choice(ids), Append(1, 1, payload_type), value=value)
                    await asyncio.to_thread(log.append, topic, 0, [stale], part="journal")
                if random.random() < 0.3:
                    end = random.randint(0, log.bounds(topic, 0).end)
                    with open_store(store_address_of(settings, tmp_path)) as store:
                        task = PartitionTask(topic=topic, partition=0, generation=generation, end=end)
                        assert (await asyncio.to_thread(copy_partition, log, store, task)).problem is None
                if step % 5 == 0:
                    await check(Journals(random.choice((backend, other))))
            await check(Journals(backend))
            await check(Journals(other))


async def test_the_owner_purges_what_expires(kafka: str, tmp_path: Path) -> None:
    name = fresh("sessions")
    settings = Settings(
        data=tmp_path, log=LogSettings(engine="kafka"), kafka=KafkaSettings(bootstrap=(kafka,)),
        sections={"journal": JournalSettings(prefixes=(f"journal-{name}",), small=1 << 40)},
    )  # fmt: skip

    def replicate() -> None:
        with replicator(settings, clock=SystemClock(), random=Random(1), stopping=threading.Event()) as loop:
            assert loop.catch_up()

    log = local_log(settings, tmp_path, SystemClock())
    performer = JournalPerformer(log=log, settings=settings)
    try:
        backend = LocalBackend(log, settings=settings, performers={"journal": performer})
        await Journals(backend).create(f"journal-{name}", partitions=2)
        journals = Journals(backend)(f"journal-{name}")
        for id in ("a", "b", "c", "d"):
            await journals[id].append("x", expire_after="1ms")
        await journals["kept"].append("x")
        await asyncio.to_thread(replicate)
        await journals["d"].append("y")  # not copied yet, and it takes the expiry back
        expired = await journals.expire(dry_run=True)
        assert [(one.id, one.purged) for one in expired.journals] == [("a", False), ("b", False), ("c", False)]
        async with opened(kafka, tmp_path) as (other, _):
            with pytest.raises(NotOwner):
                await Journals(other)(f"journal-{name}").expire()
        with open_store(store_address_of(settings, tmp_path)) as store:
            kafka_log = await log.open()
            chores = Chores(kafka_log, store, Discovery(kafka_log, (f"journal-{name}",)), keep=Duration.parse("0ms"), clock=SystemClock())
            await asyncio.to_thread(chores.turn)  # leaves it to the owner
        assert [id async for id in journals.ids()] == ["a", "b", "c", "d", "kept"]
        await OwnerExpiry(performer).turn()
        for copied in (False, True):
            if copied:
                await asyncio.to_thread(replicate)
            assert [id async for id in journals.ids()] == ["d", "kept"]
        assert (await journals["a"].append("z", expected=0)).first == 1  # the owner knows of its Purge
        await OwnerExpiry(performer).turn()
        assert await numbers(journals["a"]) == [1]
    finally:
        await performer.aclose()
        await log.aclose()


async def test_a_topic_of_others_takes_events_with_their_numbers_alone(kafka: str, tmp_path: Path) -> None:
    topic = fresh("journal-theirs")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE)
    theirs = Producer({"bootstrap.servers": kafka})

    def produce(id: str, *sent: int) -> None:
        kind, body = encode_events([NumberedEvent(number, Payload(PayloadKind.JSON, b"1")) for number in sent])
        record = write_record(id, Append(sent[0], sent[-1], kind), value=body, headers=(("k", "v"),))
        theirs.produce(topic, record.value, record.key, 0, headers=[(key, value) for key, value in record.headers])
        theirs.flush(PATIENCE)

    produce("a", 1, 2)
    async with opened(kafka, tmp_path) as (backend, _):
        journals = Journals(backend)
        assert next(one.writers for one in await journals.list() if one.topic == topic) == "shared"
        journal = journals(topic)["a"]
        assert await numbers(journal) == [1, 2]
        for call in (lambda: journal.append("x"), lambda: journal.append(Event("x", 3), expected=2)):
            with pytest.raises(NotOwner, match="seq_nr"):
                await call()
        assert (await journal.append(Event("x", 3))).first == 3
        produce("a", 4)
        assert await numbers(journal) == [1, 2, 3, 4]
        assert await journal.pointer() == 4
        assert (await journal.delete(to=9)).to == 4
        assert (await journal.append(Event("y", 5))).first == 5
        assert await numbers(journal) == [5]
        assert msgspec.structs.asdict((await journal.trail()).records[0])["first"] == 1


async def test_a_topic_that_grew_is_read_by_each_of_its_counts(kafka: str, tmp_path: Path) -> None:
    name = f"journal-{fresh('grown')}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])[name].result(PATIENCE)
    ids = [f"entity-{number}" for number in range(12)]

    def produce(records: list[Record]) -> None:
        producer = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random", "topic.metadata.refresh.interval.ms": 200})
        for record in records:
            producer.produce(name, key=record.key, value=record.value, headers=list(record.headers), on_delivery=delivered)
        assert producer.flush(PATIENCE) == 0

    def delivered(error: object, message: object) -> None:
        assert error is None, error

    def event(id: str, number: int) -> Record:
        kind, value = encode_events([NumberedEvent(number, Payload(PayloadKind.TEXT, b"x"))])
        return write_record(id, Append(number, number, kind), value=value)

    produce([event(id, number) for number in (1, 2, 3) for id in ids])
    settings = Settings(
        data=tmp_path, log=LogSettings(engine="kafka"), kafka=KafkaSettings(bootstrap=(kafka,)),
        sections={"journal": JournalSettings(prefixes=(name,), small=1 << 40)},
    )  # fmt: skip

    def replicate() -> None:
        with replicator(settings, clock=SystemClock(), random=Random(1), stopping=threading.Event()) as loop:
            assert loop.catch_up()

    topics = (name, f"snapshot-{name}")

    def grow() -> None:
        for topic in topics:
            admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE)

    log = local_log(settings, tmp_path, SystemClock())
    performer = JournalPerformer(log=log, settings=settings)
    journals = Journals(LocalBackend(log, settings=settings, performers={"journal": performer}))(name)
    for id in ids:
        assert (await journals[id].snapshots.save({"at": 3})).seq_nr == 3
    await performer.aclose()
    await log.aclose()
    await asyncio.to_thread(replicate)
    await asyncio.to_thread(grow)
    for topic in topics:
        await until(lambda topic=topic: len(admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions) == 5)
    log = local_log(settings, tmp_path, SystemClock())
    performer = JournalPerformer(log=log, settings=settings)

    async def newest(id: str) -> int | None:
        found = await journals[id].snapshots.load()
        return None if found is None else found.seq_nr

    try:
        journals = Journals(LocalBackend(log, settings=settings, performers={"journal": performer}))(name)
        assert [await numbers(journals[id]) for id in ids] == [[1, 2, 3]] * 12
        produce([event(id, 4) for id in ids])
        moved = [id for id in ids if len((await performer.topics_open.find(name)).places(id)) > 1]
        assert moved
        for copied in (False, True):
            if copied:
                await asyncio.to_thread(replicate)
            assert [await numbers(journals[id]) for id in ids] == [[1, 2, 3, 4]] * 12, copied
            assert [await journals[id].pointer() for id in ids] == [4] * 12
            assert [await newest(id) for id in ids] == [3] * 12, copied
            assert [id async for id in journals.ids()] == sorted(ids)
        for id in moved:
            await journals[id].snapshots.save({"at": 4})
        await journals[moved[0]].delete(to=2)
        assert (await journals[moved[1]].purge()).done
        for copied in (False, True):
            if copied:
                await asyncio.to_thread(replicate)
            assert await numbers(journals[moved[0]]) == [3, 4], copied
            assert await numbers(journals[moved[1]]) == [], copied
            assert (await newest(moved[0]), await newest(moved[1])) == (4, None), copied
            assert [shown.seq_nr for shown in await journals[moved[0]].snapshots.list()] == [4, 3]
            assert await journals[moved[1]].pointer() is None
            assert moved[1] not in [id async for id in journals.ids()]
        assert (await journals.verify()).journals
        followed: list[int] = []
        async for shown in journals.follow(ids={moved[0]}):
            followed.append(shown.seq_nr)
            if len(followed) == 4:
                break
        assert sorted(followed) == [1, 2, 3, 4]
    finally:
        await performer.aclose()
        await log.aclose()
