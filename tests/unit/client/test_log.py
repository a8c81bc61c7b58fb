"""The log as the door offers it: the same over a directory and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headwater.client.local import LocalLog, local_log
from headwater.client.log import AsyncLog
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.core.errors import BadBounds, BadInput, Fenced, OutcomeUnknown, UnknownTopic
from headwater.core.settings import LogSettings, Settings
from headwater.core.units import Size
from headwater.log.partitioner import partition_for
from headwater.log.record import Record, TopicSettings
from headwater.server import log_handlers
from headwater.testing import scripted
from headwater.testing.app import app_over

pytestmark = pytest.mark.anyio
KEYS = [b"k%d" % number for number in range(8)]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(log=LogSettings(segment=Size(1 << 20))), tmp_path, SystemClock())
    await opened.open()
    yield opened
    await opened.aclose()


@pytest.fixture(params=["directory", "http"])
async def log(request: pytest.FixtureRequest, served: LocalLog) -> AsyncIterator[AsyncLog]:
    if request.param == "directory":
        yield served
        return
    async with scripted.served(app_over(served)) as url:
        remote = remote_log(url, token=None, clock=SystemClock())
        yield remote
        await remote.aclose()


async def filled(log: AsyncLog, count: int = 10) -> None:
    await log.create_topic("bank", partitions=2)
    await log.append("bank", 0, [Record(b"k%d" % (n % 3), b"%d" % n, headers=(("n", b"%d" % n),)) for n in range(count)])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda log: log.read("bank", 0, "0"), "'0' is no offset"),
        (lambda log: log.read("bank", 0, 1.0), "1.0 is no offset"),
        (lambda log: log.read("bank", 0, 0, limit=None), "None is no limit"),
        (lambda log: log.read("bank", 0, 0, stop="5"), "'5' is no offset"),
        (lambda log: log.read("bank", 0, 0, key="k0"), "The key 'k0' is no bytes"),
        (lambda log: anext(log.tail("bank", 0, "0")), "'0' is no offset"),
        (lambda log: anext(log.tail_topic("bank", [0])), "names no starts"),
        (lambda log: log.create_topic("t", settings="1MiB"), "no settings of a topic"),
        (lambda log: log.create_topic("t", settings={"segment": 5}), "no settings of a topic"),
        (lambda log: log.offset_at("bank", 0, "now"), "'now' is no timestamp"),
        (lambda log: log.delete_before("bank", 0, "1"), "'1' is no offset"),
        (lambda log: log.compact("bank", 0, "1"), "'1' is no offset"),
    ],
)
async def test_values_of_a_wrong_type_are_bad_input(log: AsyncLog, call: Callable[[Any], Awaitable[Any]], says: str) -> None:
    await filled(log)
    with pytest.raises(BadInput, match=says) as no:
        await call(log)
    assert no.value.hint
    assert (await log.bounds("bank", 0)).start == 0


async def test_settings_may_be_given_in_part(log: AsyncLog) -> None:
    made = await log.create_topic("t", settings={"max_record": "1KiB"})
    assert (made.settings.max_record, made.settings.segment) == (1024, 1 << 20)
    with pytest.raises(BadInput, match="no setting of a topic"):
        await log.create_topic("other", settings={"sgement": "1KiB"})


async def test_records_go_to_the_partitions_of_their_keys(log: AsyncLog) -> None:
    await log.create_topic("bank", partitions=3)
    placed = await log.append_by_key("bank", [Record(key, b"v" + key) for key in KEYS])
    assert [one.partition for one in placed] == [partition_for(key, 3) for key in KEYS]
    for key, place in zip(KEYS, placed, strict=True):
        [record] = await log.read("bank", place.partition, place.offset, limit=1)
        assert (record.key, record.value) == (key, b"v" + key)
    [again] = await log.append_by_key("bank", [Record(KEYS[0], b"")])
    assert (again.partition, again.offset) == (placed[0].partition, [one.partition for one in placed].count(placed[0].partition))
    assert await log.append_by_key("bank", []) == []


async def test_a_record_without_a_key_has_a_place_only_where_there_is_one_partition(log: AsyncLog) -> None:
    await log.create_topic("bank", partitions=2)
    await log.create_topic("one")
    with pytest.raises(BadInput, match="Record 1 has no key, and topic bank has 2 partitions"):
        await log.append_by_key("bank", [Record(b"k", b""), Record(None, b"x")])
    assert [one.start + one.end for one in await log.stats("bank")] == [0, 0]
    assert [(one.partition, one.offset) for one in await log.append_by_key("one", [Record(None, b"x")])] == [(0, 0)]
    with pytest.raises(UnknownTopic):
        await log.append_by_key("nobody", [Record(b"k", b"")])
    with pytest.raises(BadInput, match="is text"):
        await log.append_by_key("bank", [Record("k", b"")])  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize(
    "bad", [Record(KEYS[0], b"x" * 2000), Record(KEYS[1], b"x" * 2000), Record(KEYS[0], b"", headers=(("n" * 70_000, b""),))]
)
async def test_one_record_that_cannot_be_appended_lets_none_be(log: AsyncLog, bad: Record, count: int) -> None:
    await log.create_topic("bank", partitions=2, settings={"max_record": "1KiB"})
    good = [Record(key, b"v") for key in KEYS] * count
    assert {partition_for(key, 2) for key in KEYS} == {0, 1}
    with pytest.raises(BadInput):
        await log.append_by_key("bank", [*good, bad, *good])
    assert [one.end for one in await log.stats("bank")] == [0, 0]


async def test_what_only_some_partitions_took_is_said(log: AsyncLog, served: LocalLog) -> None:
    await log.create_topic("bank", partitions=2)
    (await served.open()).claim("bank", 1)
    theirs = [key for key in KEYS if partition_for(key, 2) == 1]
    with pytest.raises(OutcomeUnknown, match=r"Only a part was appended to bank: partition 0 at 0, 1.* Partition 1: "):
        await log.append_by_key("bank", [Record(key, b"") for key in KEYS])
    with pytest.raises(Fenced):
        await log.append_by_key("bank", [Record(key, b"") for key in theirs])
    assert [one.end for one in await log.stats("bank")] == [len(KEYS) - len(theirs), 0]


async def test_what_each_partition_consists_of(log: AsyncLog) -> None:
    await filled(log)
    await log.delete_before("bank", 0, 2)
    first, second = await log.stats("bank")
    assert (first.topic, first.partition, first.start, first.end, first.segments, first.damage) == ("bank", 0, 2, 10, 1, "")
    assert first.bytes
    assert (second.partition, second.start, second.end) == (1, 0, 0)
    with pytest.raises(UnknownTopic):
        await log.stats("nobody")


async def test_only_the_records_of_a_key(log: AsyncLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_handlers, "_SEARCHED", 2)  # several pages, some of them empty
    await filled(log)
    found = await log.read("bank", 0, 0, key=b"k1")
    assert [record.offset for record in found] == [1, 4, 7]
    assert found[1:2] == await log.read("bank", 0, 4, limit=1)
    assert [record.offset for record in await log.read("bank", 0, 2, limit=1, key=b"k1")] == [4]
    assert await log.read("bank", 0, 10, key=b"k1") == []
    assert await log.read("bank", 0, 0, key=b"nobody") == []
    with pytest.raises(BadBounds):
        await log.read("bank", 0, 11, key=b"k1")


@pytest.mark.parametrize("key", [b"", b"\xff\x00", b"a b&c=%", b'{"$binary": 5}', "ä".encode()])
async def test_any_key_can_be_asked_for(log: AsyncLog, key: bytes) -> None:
    await log.create_topic("bank")
    await log.append("bank", 0, [Record(b"other", b""), Record(key, b"this"), Record(None, b"")])
    assert [record.value for record in await log.read("bank", 0, 0, key=key)] == [b"this"]


async def test_several_partitions_are_followed_at_once(served: LocalLog) -> None:
    await filled(served)
    seen: list[tuple[int, int | None]] = []
    async with asyncio.timeout(60), aclosing(served.tail_topic("bank", {0: 8, 1: 0})) as batches:  # type: ignore[type-var]
        async for batch in batches:
            seen += [(partition, record.offset) for partition, record in batch]
            if len(seen) == 2:
                await served.append("bank", 1, [Record(None, b"new"), Record(None, b"newer")])
            if len(seen) >= 4:
                break
    assert [offset for partition, offset in seen if partition == 0] == [8, 9]
    assert [offset for partition, offset in seen if partition == 1] == [0, 1]


async def test_a_tail_that_fails_ends_all_of_them(log: AsyncLog) -> None:
    await filled(log)
    seen = 0
    with pytest.raises(BadBounds):
        async with asyncio.timeout(60):
            async for batch in log.tail_topic("bank", {0: 0, 1: 5}):
                seen += len(batch)
    assert seen in (0, 10)


async def test_without_starts_every_partition_is_followed_from_its_end(served: LocalLog) -> None:
    await filled(served)
    async with asyncio.timeout(60), aclosing(served.tail_topic("bank")) as batches:  # type: ignore[type-var]
        assert await anext(batches) == []
        await served.append("bank", 1, [Record(None, b"new")])
        while not (batch := await anext(batches)):
            pass
    assert [(partition, record.value) for partition, record in batch] == [(1, b"new")]


# -- over HTTP, for programs without the door -------------------------------------------------------------------


async def test_a_key_narrows_pages_lines_and_streams(served: LocalLog, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(served)
    monkeypatch.setattr(log_handlers, "_SEARCHED", 5)
    transport = httpx2.ASGITransport(app=app_over(served))
    async with httpx2.AsyncClient(base_url="http://server", transport=transport) as http:
        page = await http.get("/log/bank/0/records?key=k1")
        assert ([one["offset"] for one in page.json()["items"]], page.json()["next"]) == ([1, 4], "5")
        assert "key=k1" in page.headers["link"]
        rest = await http.get(page.links["next"]["url"])
        assert ([one["offset"] for one in rest.json()["items"]], rest.json()["next"]) == ([7], None)
        lines = await http.get("/log/bank/0/records?key=k1&limit=2", headers={"Accept": "application/x-ndjson"})
        assert [line.count("k1") for line in lines.text.splitlines()] == [1, 1]
        for accept in ("application/json", "application/x-ndjson", "text/event-stream"):
            bad = await http.get('/log/bank/0/records?key={"$binary": "%25"}', headers={"Accept": accept})
            assert (bad.status_code, bad.json()["code"]) == (400, "bad-input")


async def test_where_records_were_placed_is_answered(served: LocalLog) -> None:
    await served.create_topic("bank", partitions=3)
    transport = httpx2.ASGITransport(app=app_over(served))
    async with httpx2.AsyncClient(base_url="http://server", transport=transport) as http:
        answer = await http.post("/log/bank/records", json=[{"key": "k0", "value": 1}, {"key": "k0", "value": 2}])
        place = partition_for(b"k0", 3)
        assert (answer.status_code, answer.json()) == (
            201,
            {"records": [{"partition": place, "offset": 0}, {"partition": place, "offset": 1}]},
        )
    owned = TopicSettings(segment=1 << 20)
    (await served.open()).create_topic("pipeline-shop-offsets", settings=owned, part="pipeline")
    async with httpx2.AsyncClient(base_url="http://server", transport=transport) as http:
        refused = await http.post("/log/pipeline-shop-offsets/records", json={"key": "k0"})
        assert (refused.status_code, refused.json()["code"]) == (409, "owned-topic")
