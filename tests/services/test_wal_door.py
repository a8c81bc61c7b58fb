"""The door's write-ahead log with a real broker: ownership by the consumer group, and retention that brokers may be told of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

import headwater
from headwater.client.local import LocalLog
from headwater.core.config import Config, load
from headwater.core.errors import Fenced, NotOwner, RegionNotFound, Unavailable, Unsupported
from headwater.log.epochs import EPOCH, mark
from headwater.testing.log_ground import fresh
from headwater.wal.answers import RegionEvent
from headwater.wal.bounds import Excluded
from headwater.wal.layout import RecordKind, encode_key
from headwater.wal.settings import RegionSettings

pytestmark = [pytest.mark.service("kafka"), pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def config(kafka: str, tmp_path: Path) -> Config:
    (tmp_path / "headwater.toml").write_text(f'data = "data"\n[log]\nengine = "kafka"\n[kafka]\nbootstrap = ["{kafka}"]\n')
    return load(file=tmp_path / "headwater.toml")


@pytest.fixture
async def hw(config: Config) -> AsyncIterator[headwater.Headwater]:
    async with headwater.open(config=config, create=True) as door:
        yield door


@pytest.mark.parametrize("given", [{"period": "month"}, {"disposal": "reset"}, {"disposal": "secure-delete"}])
async def test_what_brokers_do_not_offer_is_refused_and_nothing_is_made(hw: headwater.Headwater, given: dict[str, str]) -> None:
    wal = hw.wal(fresh("wal").replace("_", "-"))
    with pytest.raises(Unsupported):
        await wal.create(7, RegionSettings(**given))
    assert [topic.name for topic in await hw.log.topics() if topic.name.startswith(wal.namespace)] == []


async def test_a_region_is_written_looked_at_and_cleaned(hw: headwater.Headwater, config: Config) -> None:
    wal = hw.wal(fresh("wal").replace("_", "-"))
    with pytest.raises(RegionNotFound):
        await wal.open(7)
    region = await wal.open(7, create=True)
    assert await region.write(9, [b"old"]) == 1
    assert await region.write(1, [b"a", b"b"]) == 2
    assert await region.write(1, [b"c"]) == 3
    await region.mark_delete_up_to(1, 2)
    async with headwater.open(config=config) as other:
        theirs = other.wal(wal.namespace)
        assert [entry.payload async for entry in theirs[7].read(1, Excluded(2))] == [b"c"]
        assert (await theirs[7].why()).table == 9
        assert (await theirs[7].verify()).live == 2  # of the older snapshot, where the first clean has removed the claim
        assert (await theirs[7].statistics()).open is False
        with pytest.raises(NotOwner):
            await theirs.open(7)
    assert (await region.move(9)).entries == 1
    assert (await region.clean()).removed > 0
    assert [entry.payload async for entry in region.scan()] == [b"c", b"old"]
    assert (await region.verify()).compared == "older snapshot"
    assert [one.region for one in await wal.regions()] == [7]
    start = (await region.statistics()).start
    async for event in region.events(after=start - 1):  # a move, and what came before it was cleaned
        assert (event.kind, event.table) == ("write", 1)
        break
    await region.close_gracefully()
    again = await wal.open(7)
    assert await again.sequence_num(1) == 3


async def test_a_region_whose_records_brokers_remove_is_not_opened(hw: headwater.Headwater, kafka: str) -> None:
    wal = hw.wal(fresh("wal").replace("_", "-"))
    await wal.create(7)
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, f"{wal.namespace}_data_7", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
    with pytest.raises(Unavailable, match=r"retention\.ms=1000"):
        await wal.open(7)


async def test_events_from_now_on_tell_nothing_of_a_former_owner_or_a_stranger(
    hw: headwater.Headwater, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers take whatever is sent. The owner does not count it, and neither do those who follow."""
    wal = hw.wal(fresh("wal").replace("_", "-"))
    region = await wal.open(7, create=True)
    await region.write(1, [b"a"])
    producer, topic = Producer({"bootstrap.servers": kafka}), f"{wal.namespace}_data_7"
    watched, begun = LocalLog.watched, asyncio.Event()

    def seen(self: LocalLog, topic: str, partition: int) -> Any:
        begun.set()
        return watched(self, topic, partition)

    monkeypatch.setattr(LocalLog, "watched", seen)
    events = region.events()

    async def next_write() -> RegionEvent:
        return await anext(event async for event in events if event.kind != "clean")  # its opening cleans it

    first = asyncio.create_task(next_write())
    await asyncio.wait_for(begun.wait(), 60)
    for headers in ([], [(EPOCH, mark(1))]):
        producer.produce(topic, b"\0stranger", encode_key(RecordKind.ENTRY, 7, 1, 2), 0, headers=headers)
    assert not producer.flush(60)
    assert await region.write(1, [b"b"]) == 2
    event = await first
    (entry,) = [entry async for entry in region.read(1) if entry.sequence == 2]  # behind it a claim may lie, where brokers were slow
    assert (event.kind, event.first, event.offset) == ("write", 2, entry.offset)


async def test_who_has_taken_a_region_over_may_delete_it(hw: headwater.Headwater, config: Config) -> None:
    """The group still names the process from which it was taken, as long as that one lives."""
    wal = hw.wal(fresh("wal").replace("_", "-"))
    former = await wal.open(7, create=True)
    await former.write(1, [b"a"])
    async with headwater.open(config=config) as other:
        theirs = other.wal(wal.namespace)
        with pytest.raises(NotOwner):
            await theirs.delete(7)
        await theirs.take_over(7)
        assert (await theirs.delete(7)).offsets > 0
        assert await theirs.regions() == []
        made = await theirs.open(7, create=True, take_over=True)
        assert await made.write(1, [b"new"]) == 1
        with pytest.raises(Fenced):
            await former.write(1, [b"b"])


async def test_a_former_owner_shows_what_the_log_holds(hw: headwater.Headwater, config: Config) -> None:
    """Also of a region that was deleted and created again: its epochs begin anew."""
    wal = hw.wal(fresh("wal").replace("_", "-"))
    former = await wal.open(7, create=True)
    for _ in range(5):
        await former.write(1, [b"a"])
    assert (await former.statistics()).open
    async with headwater.open(config=config) as other:
        theirs = other.wal(wal.namespace)
        taken = await theirs.take_over(7)
        assert await taken.write(1, [b"b"]) == 6
        assert await former.sequence_num(1) == 6
        assert not (await former.statistics()).open
        with pytest.raises(Fenced):
            await former.write(1, [b"c"])
        former = await wal.take_over(7)
        assert await former.sequence_num(1) == 6
        await theirs.take_over(7)
        await theirs.delete(7)
        made = await theirs.open(7, create=True, take_over=True)
        assert await made.write(1, [b"new"]) == 1
        assert [entry.payload async for entry in former.scan()] == [b"new"]
        assert not (await former.statistics()).open
