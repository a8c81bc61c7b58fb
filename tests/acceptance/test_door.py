"""The door: the same test body over a directory, over a server's address, and over a directory that a server serves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from free_port import free_port

import headwater
from headwater.core.config import load
from headwater.core.errors import (
    AlreadyExists,
    BadBounds,
    BadConfig,
    BadInput,
    Closed,
    Denied,
    Forbidden,
    HeadwaterError,
    NotFound,
    OffsetGone,
    OutcomeUnknown,
    TooLarge,
    UnknownPartition,
    UnknownTopic,
    Unreachable,
    Unsupported,
)
from headwater.core.ids import random_id
from headwater.log.record import Bounds, Mode, Record, TopicSettings
from headwater.server.spawned import SpawnedServer

WAYS = ("directory", "address", "served directory")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpawnedServer]:
    with SpawnedServer(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(params=WAYS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "directory":
        (tmp_path / "data").mkdir()
        yield str(tmp_path / "data")
        return
    server = request.getfixturevalue("server")
    yield server.url if request.param == "address" else str(server.data)
    with headwater.open_blocking(server.url) as hw:
        for topic in hw.log.topics():
            hw.log.delete_topic(topic.name)


@pytest.mark.anyio
async def test_a_day_in_the_life_of_a_topic(where: str) -> None:
    settings = TopicSettings(segment=1 << 20, period="day", max_record=1000, disposal="secure-truncate")
    async with headwater.open(where) as hw:
        topic = await hw.log.create_topic("bank", partitions=2, settings=settings)
        assert (topic.name, topic.partitions, topic.settings) == ("bank", 2, settings)
        assert await hw.log.create_topic("bank", partitions=2) == topic
        assert await hw.log.topic("bank") == topic
        assert await hw.log.topics() == [topic]
        sent = [
            Record(b"k", b"v"),
            Record(None, b"\x00\xff", (("h", b"1"), ("h", None)), timestamp=1_700_000_000_000, mode=Mode.SYNC, op=5),
            Record(b"", None),
        ]
        assert list(await hw.log.append("bank", 1, sent)) == [0, 1, 2]
        assert await hw.log.bounds("bank", 1) == Bounds(0, 3)
        assert await hw.log.bounds("bank", 0) == Bounds(0, 0)
        got = await hw.log.read("bank", 1, 0)
        assert [(r.key, r.value, r.headers, r.mode, r.op, r.offset) for r in got] == [
            (r.key, r.value, r.headers, r.mode, r.op, offset) for offset, r in enumerate(sent)
        ]
        assert got[1].timestamp == 1_700_000_000_000
        assert [record.offset for record in await hw.log.read("bank", 1, 1, limit=1)] == [1]
        assert await hw.log.read("bank", 1, 3) == []
        assert got[0].timestamp is not None
        assert await hw.log.offset_at("bank", 1, 0) == 0
        assert await hw.log.offset_at("bank", 1, got[0].timestamp + 10_000_000_000) == 3
        assert await hw.log.delete_before("bank", 1, 2) == 2
        assert await hw.log.bounds("bank", 1) == Bounds(2, 3)
        compacted = await hw.log.compact("bank", 1)
        assert compacted.records_after <= compacted.records_before
        await hw.log.delete_topic("bank")
        assert await hw.log.topics() == []


@pytest.mark.anyio
async def test_many_callers_at_once_get_offsets_of_their_own(where: str) -> None:
    async with headwater.open(where) as hw:
        await hw.log.create_topic("busy")
        answers = await asyncio.gather(*(hw.log.append("busy", 0, [Record(b"%d" % n, b"%d" % n)] * (1 + n % 3)) for n in range(60)))
        offsets = [offset for answer in answers for offset in answer]
        assert sorted(offsets) == list(range(len(offsets)))
        records = await hw.log.read("busy", 0, 0)
        for number, answer in enumerate(answers):
            assert [records[offset].value for offset in answer] == [b"%d" % number] * len(answer)
            assert list(answer) == list(range(answer[0], answer[0] + len(answer)))


@pytest.mark.anyio
async def test_a_tail_shows_what_is_there_and_what_comes(where: str) -> None:
    async with headwater.open(where) as hw, asyncio.timeout(30):
        await hw.log.create_topic("news")
        await hw.log.append("news", 0, [Record(None, b"old")])
        tail = hw.log.tail("news", 0, 0)
        assert (await anext(tail)).value == b"old"
        upcoming = asyncio.ensure_future(anext(tail))
        await hw.log.append("news", 0, [Record(None, b"new")])
        assert (await upcoming).value == b"new"
        await tail.aclose()  # type: ignore[attr-defined]


BAD: list[tuple[str, type[HeadwaterError], Callable[[headwater.Headwater], Awaitable[object]]]] = [
    ("topic", UnknownTopic, lambda hw: hw.log.topic("none")),
    ("bounds", UnknownTopic, lambda hw: hw.log.bounds("none", 0)),
    ("read", UnknownTopic, lambda hw: hw.log.read("none", 0, 0)),
    ("append", UnknownTopic, lambda hw: hw.log.append("none", 0, [Record(None, b"")])),
    ("delete", UnknownTopic, lambda hw: hw.log.delete_topic("none")),
    ("delete before", UnknownTopic, lambda hw: hw.log.delete_before("none", 0, 0)),
    ("compact", UnknownTopic, lambda hw: hw.log.compact("none", 0)),
    ("tail", UnknownTopic, lambda hw: anext(hw.log.tail("none", 0))),
    ("partition", UnknownPartition, lambda hw: hw.log.read("here", 7, 0)),
    ("append to a partition", UnknownPartition, lambda hw: hw.log.append("here", 7, [Record(None, b"")])),
    ("negative partition", UnknownPartition, lambda hw: hw.log.bounds("here", -1)),
    ("name", BadInput, lambda hw: hw.log.create_topic("no/name")),
    ("no name", BadInput, lambda hw: hw.log.create_topic("")),
    ("dots", BadInput, lambda hw: hw.log.topic("..")),
    ("count", BadInput, lambda hw: hw.log.create_topic("new", partitions=0)),
    ("other count", AlreadyExists, lambda hw: hw.log.create_topic("here", partitions=2)),
    ("empty batch", BadInput, lambda hw: hw.log.append("here", 0, [])),
    ("large record", TooLarge, lambda hw: hw.log.append("here", 0, [Record(None, bytes(2000))])),
    ("large batch", TooLarge, lambda hw: hw.log.append("wide", 0, [Record(None, bytes(15 << 20))] * 6)),
    ("mode", BadInput, lambda hw: hw.log.append("here", 0, [Record(None, b"", mode=9)])),
    ("gone", OffsetGone, lambda hw: hw.log.read("here", 0, 0)),
    ("gone tail", OffsetGone, lambda hw: anext(hw.log.tail("here", 0, 0))),
    ("beyond", BadBounds, lambda hw: hw.log.read("here", 0, 99)),
    ("beyond tail", BadBounds, lambda hw: anext(hw.log.tail("here", 0, 99))),
    ("delete beyond", BadBounds, lambda hw: hw.log.delete_before("here", 0, 99)),
    ("no limit", BadInput, lambda hw: hw.log.read("here", 0, 1, limit=0)),
    ("negative offset", BadBounds, lambda hw: hw.log.read("here", 0, -1)),
]


@pytest.mark.anyio
async def test_bad_input_is_the_same_error_everywhere(where: str) -> None:
    async with headwater.open(where) as hw:
        await hw.log.create_topic("here", settings=TopicSettings(max_record=1000))
        await hw.log.append("here", 0, [Record(None, b"0"), Record(None, b"1")])
        await hw.log.delete_before("here", 0, 1)
        await hw.log.create_topic("wide")
        for name, kind, call in BAD:
            with pytest.raises(HeadwaterError) as caught:
                await call(hw)
            assert isinstance(caught.value, kind), f"{name}: {caught.value!r}"
            assert caught.value.hint, name
        assert await hw.log.bounds("here", 0) == Bounds(1, 2)
        assert [topic.name for topic in await hw.log.topics()] == ["here", "wide"]
        assert await hw.log.bounds("wide", 0) == Bounds(0, 0)


@pytest.mark.anyio
async def test_used_outside_of_its_block_it_is_closed(where: str) -> None:
    hw = headwater.open(where)
    with pytest.raises(Closed):
        _ = hw.log
    async with hw:
        log = hw.log
    with pytest.raises(Closed):
        _ = hw.log
    with pytest.raises(Closed):
        await log.topics()
    await hw.aclose()


def test_plain_code_gets_the_same(where: str) -> None:
    with headwater.open_blocking(where) as hw:
        hw.log.create_topic("plain")
        assert list(hw.log.append("plain", 0, [Record(b"k", b"v")])) == [0]
        tail = hw.log.tail("plain", 0, 0)
        assert next(tail).value == b"v"
        hw.log.append("plain", 0, [Record(b"k", b"w")])
        assert next(tail).value == b"w"
        tail.close()
        with pytest.raises(UnknownTopic):
            hw.log.topic("none")
        log = hw.log
    with pytest.raises(Closed):
        log.topics()
    with pytest.raises(Closed):
        _ = hw.log
    hw.close()


@pytest.mark.anyio
async def test_awaiting_it_opens_it_without_a_block(where: str) -> None:
    hw = await headwater.open(where)
    await hw.log.create_topic("awaited")
    assert await hw is hw
    await hw.aclose()
    with pytest.raises(Closed):
        _ = hw.log


def test_plain_code_needs_no_block(where: str) -> None:
    hw = headwater.open_blocking(where)
    hw.log.create_topic("unblocked")
    with hw as same:
        assert same is hw
        assert "unblocked" in [topic.name for topic in hw.log.topics()]
    with pytest.raises(Closed, match="closed"):
        _ = hw.log


_LEFT_OPEN = """
import sys, threading, headwater
hw = headwater.open_blocking(sys.argv[1], create=True)
hw.log.create_topic("left")
hw.queue("jobs", create=True).put("a")
reading = threading.Event()
def read():
    tail = hw.log.tail("left", 0, 0)
    next(tail)
    reading.set()
    next(tail)
threading.Thread(target=read, daemon=True).start()
hw.log.append("left", 0, [headwater.Record(None, b"x")])
reading.wait()
print("the end")
"""


def test_a_program_that_leaves_it_open_ends_in_silence(tmp_path: Path) -> None:
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", _LEFT_OPEN, str(tmp_path / "data")], capture_output=True, text=True, timeout=60, check=False
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "the end\n", "")
    with headwater.open_blocking(tmp_path / "data") as hw:
        assert hw.log.bounds("left", 0) == Bounds(0, 2)
        assert hw.queue("jobs").get("a").key == "a"


def test_plain_code_may_use_threads(where: str) -> None:
    with headwater.open_blocking(where) as hw:
        hw.log.create_topic("threads")
        threads = [threading.Thread(target=lambda: hw.log.append("threads", 0, [Record(None, b"x")])) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert hw.log.bounds("threads", 0) == Bounds(0, 8)


@pytest.mark.anyio
async def test_waiting_inside_a_loop_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"headwater\.open\("):
        headwater.open_blocking(tmp_path)


def test_without_a_place_the_configured_one_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text('data = "here"\n[log]\nsegment = "2MiB"\n')
    with headwater.open_blocking(config=file, create=True) as hw:
        assert hw.log.create_topic("t").settings.segment == 2 << 20
    assert (tmp_path / "here" / "log" / "t" / "topic.json").exists()
    file.write_text("[server]\nprot = 1\n")
    with pytest.raises(BadConfig, match=r"server\.port"):
        headwater.open_blocking(config=file)


def test_a_config_file_may_be_named_as_text(tmp_path: Path) -> None:
    (tmp_path / "hw.toml").write_text('data = "there"\n')
    with headwater.open_blocking(config=str(tmp_path / "hw.toml"), create=True) as hw:
        hw.log.create_topic("t")
    assert (tmp_path / "there" / "log" / "t").is_dir()


@pytest.mark.parametrize("named", [{"config": 5}, {"token": 5}, {"ca": 5}])
@pytest.mark.parametrize("address", [None, "http://127.0.0.1:1"])
def test_arguments_of_another_type_are_bad_input(named: dict[str, Any], address: str | None, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as no, headwater.open_blocking(address or tmp_path, **named):
        pass
    assert no.value.hint


@pytest.mark.parametrize("where", ["", 7, b"data", ["data"], "da\0ta"])
def test_what_names_no_directory_is_refused(where: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="names no directory"), headwater.open_blocking(where, create=True):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.anyio
@pytest.mark.parametrize(
    "address", ["kafka://a:9092", "htp://127.0.0.1:8420", "s3://bucket/data", "localhost:8420", "http:/localhost:8420"]
)
async def test_another_kind_of_address_is_no_directory(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="neither a directory nor"):
        await headwater.open(address, create=True).__aenter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
async def test_an_address_in_capitals_is_one() -> None:
    async with headwater.open("HTTP://127.0.0.1:1") as hw:
        with pytest.raises(Unreachable, match="headwater serve"):
            await hw.log.topics()


@pytest.mark.anyio
async def test_a_directory_is_made_when_that_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="create=True"):
        await headwater.open(tmp_path / "data").__aenter__()
    assert list(tmp_path.iterdir()) == []
    async with headwater.open(tmp_path / "data", create=True) as hw:
        await hw.log.create_topic("t")
    async with headwater.open(tmp_path / "data") as hw:
        assert [topic.name for topic in await hw.log.topics()] == ["t"]


@pytest.mark.anyio
async def test_what_is_no_record_is_told_with_what_to_write(where: str) -> None:
    bad: list[tuple[Any, str]] = [
        ([Record("k", b"v")], "key='k'.encode()"),  # type: ignore[arg-type]
        ([Record(b"k", b"v"), Record(b"k", {"a": 1})], "value of record 1 is of type dict"),  # type: ignore[arg-type]
        ([Record(b"k", b"v", headers={"h": b"x"})], "no pairs"),  # type: ignore[arg-type]
        ([{"value": 1}], "Record 0 is of type dict"),
        ([Record(b"k", b"v", timestamp="now")], "timestamp of record 0 is 'now'"),  # type: ignore[arg-type]
        ("abc", "is of type str"),
        (Record(b"k", b"v"), "list of `Record`"),
    ]
    async with headwater.open(where) as hw:
        await hw.log.create_topic("bad")
        for records, said in bad:
            with pytest.raises(BadInput) as caught:
                await hw.log.append("bad", 0, records)
            assert said in str(caught.value), caught.value
        places: list[tuple[Any, Any]] = [("bad", "0"), ("bad", None), ("bad", 0.0), (7, 0), (b"bad", 0)]
        for topic, partition in places:
            with pytest.raises(BadInput, match=r"is a number, not|is text, not"):
                await hw.log.append(topic, partition, [Record(b"k", b"v")])
        assert await hw.log.bounds("bad", 0) == Bounds(0, 0)
        await hw.log.append("bad", 0, [Record(b"k", b"v")])
        for partition in (0.0, False):  # equal to one that is in use
            with pytest.raises(BadInput, match="is a number, not"):
                await hw.log.append("bad", partition, [Record(b"k", b"v")])  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_directory_that_a_server_serves_is_used_through_it(server: SpawnedServer, tmp_path: Path) -> None:
    async with headwater.open(server.data) as hw:
        assert hw.address == server.url
    async with headwater.open(tmp_path) as hw:
        assert hw.address is None


@pytest.mark.anyio
async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with headwater.open("http://127.0.0.1:9") as hw:
        with pytest.raises(Unreachable, match="headwater serve"):
            await hw.log.topics()
        with pytest.raises(Unreachable):
            await hw.log.append("t", 0, [Record(None, b"")])


@contextmanager
def with_tokens(path: Path, text: str) -> Iterator[SpawnedServer]:
    tokens = path / "tokens"
    tokens.write_text(text)
    tokens.chmod(0o600)
    with SpawnedServer(path / "data", options=("--port", "0", "--token-file", str(tokens))) as server:
        yield server


@pytest.mark.anyio
async def test_a_token_opens_what_its_role_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, operator = "reader-" + "r" * 20, "operator-" + "o" * 20
    monkeypatch.delenv("HEADWATER_TOKEN", raising=False)
    with with_tokens(tmp_path, f"reader {reader}\noperator {operator}\n") as server:
        async with headwater.open(server.url) as hw:
            with pytest.raises(Denied):
                await hw.log.topics()
        async with headwater.open(server.data, token=operator) as hw:
            await hw.log.create_topic("t")
        async with headwater.open(server.url, token=reader) as hw:
            assert len(await hw.log.topics()) == 1
            with pytest.raises(Forbidden, match="writer"):
                await hw.log.append("t", 0, [Record(None, b"")])
        monkeypatch.setenv("HEADWATER_TOKEN", reader)
        async with headwater.open(server.url) as hw:
            assert len(await hw.log.topics()) == 1
        assert reader not in server.errors() + server.output()


@pytest.mark.anyio
async def test_a_tail_goes_on_after_its_server_was_killed_and_came_back(tmp_path: Path) -> None:
    port = str(free_port())
    server = SpawnedServer(tmp_path, options=("--port", port))
    server.start()
    try:
        async with headwater.open(server.url) as hw, asyncio.timeout(240):
            await hw.log.create_topic("t")
            await hw.log.append("t", 0, [Record(None, b"before")])
            tail = hw.log.tail("t", 0, 0)
            assert (await anext(tail)).value == b"before"
            upcoming = asyncio.ensure_future(anext(tail))
            server.kill()
            again = SpawnedServer(tmp_path, options=("--port", port))
            await asyncio.to_thread(again.start)
            try:
                await hw.log.append("t", 0, [Record(None, b"after")])
                assert (await upcoming).value == b"after"
            finally:
                await tail.aclose()  # type: ignore[attr-defined]
                again.kill()
    finally:
        server.kill()


@pytest.mark.anyio
async def test_the_same_over_kafka(kafka: str, tmp_path: Path) -> None:
    environ = {"HEADWATER_LOG__ENGINE": "kafka", "HEADWATER_KAFKA__BOOTSTRAP": kafka}
    name = f"door-{random_id()}"
    async with headwater.open(tmp_path, config=load(environ=environ, cwd=tmp_path)) as hw, asyncio.timeout(120):
        await hw.log.create_topic(name)
        try:
            answers = await asyncio.gather(*(hw.log.append(name, 0, [Record(None, b"%d" % n)]) for n in range(50)))
            assert sorted(offset for answer in answers for offset in answer) == list(range(50))
            assert await hw.log.bounds(name, 0) == Bounds(0, 50)
            assert len(await hw.log.read(name, 0, 0)) == 50
            tail = hw.log.tail(name, 0, 49)
            assert (await anext(tail)).offset == 49
            upcoming = asyncio.ensure_future(anext(tail))
            await hw.log.append(name, 0, [Record(b"k", b"new")])
            assert (await upcoming).value == b"new"
            await tail.aclose()  # type: ignore[attr-defined]
            with pytest.raises(Unsupported):
                await hw.log.compact(name, 0)
            with pytest.raises(UnknownTopic):
                await hw.log.append("door-none", 0, [Record(None, b"")])
        finally:
            await hw.log.delete_topic(name)


def test_opening_the_door_loads_nothing_heavy() -> None:
    code = (
        "import sys, headwater; print(sorted({'pyspark', 'pandas', 'pyarrow', 'numpy', 'starlette', 'typer', 'httpx2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.anyio
async def test_a_door_to_a_directory_never_leads_to_another_one(tmp_path: Path) -> None:
    port = free_port()
    with SpawnedServer(tmp_path / "ours", options=("--port", str(port))) as ended:
        door = headwater.open(tmp_path / "ours")
        hw = await door.__aenter__()
        await hw.log.create_topic("bank")
        await hw.log.append("bank", 0, [Record(b"k", b"ours")])
    with SpawnedServer(tmp_path / "theirs", options=("--port", str(port))) as other:
        assert other.url == ended.url
        async with headwater.open(other.url) as there:
            await there.log.create_topic("bank")
            for _ in range(2):
                with pytest.raises((Unreachable, OutcomeUnknown)):
                    await hw.log.append("bank", 0, [Record(b"k", b"ours, too")])
            assert await there.log.bounds("bank", 0) == Bounds(0, 0)
    await door.aclose()
