"""Builds by a process with Spark beside this one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from quick_spark import quick
from tests.unit.documents.index.test_build import INDEX, Ground

import headwater
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings, StoreSettings
from headwater.documents.index.build import IndexBuild
from headwater.documents.index.shard import SHARD
from headwater.documents.index.spark_build import SparkBuild, SparkBuilds, small_of
from headwater.documents.settings import DocumentSettings
from headwater.documents.store_address import open_stores
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock


def settings(small: int = 0, spark: SparkSettings | None = None) -> Settings:
    return Settings(spark=spark or quick(), sections={"documents": DocumentSettings(small=small)})


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with EmbeddedLog(tmp_path), open_stores(Settings(), tmp_path) as stores:
        made = Ground(stores.partition(0, "g"))
        for number in range(60):
            made.history.put("c~", f"{number:06}", p=number % 7)
        made.history.set_index("c~", INDEX)
        made.apply()
        yield made


def source(data: Path, given: Settings, clock: ManualClock | None = None) -> SparkBuilds:
    with EmbeddedLog(data) as log:
        return SparkBuilds(given, data, log.address, clock=clock or SystemClock())


def a_build(ground: Ground, shards: SparkBuilds) -> IndexBuild:
    return IndexBuild(ground.store, ground, uri="c~", index=ground.definition(), clock=SystemClock(), shards=shards)


def test_how_many_items_are_few() -> None:
    cassandra = StoreSettings(engine="cassandra")
    assert [small_of(settings(-1)), small_of(msgspec.structs.replace(settings(-1), store=cassandra))] == [1_000_000, 100_000]
    assert [small_of(settings(0)), small_of(settings(77))] == [0, 77]


def test_where_spark_can_see_the_store(tmp_path: Path) -> None:
    far = msgspec.structs.replace(settings(), spark=SparkSettings(master="spark://host:7077"))
    never = msgspec.structs.replace(settings(), spark=SparkSettings(start="never"))
    shared = msgspec.structs.replace(far, store=StoreSettings(engine="cassandra"))
    assert [source(tmp_path, one).possible for one in (settings(), far, never, shared)] == [True, False, False, True]


def test_few_items_start_no_process(ground: Ground, tmp_path: Path) -> None:
    async def scenario() -> None:
        shards = source(tmp_path, settings(small=61))
        assert await shards.begin(ground.store, "c~", 9, "") is None
        assert await source(tmp_path, settings(small=1)).begin(ground.store, "c~", 9, "000059") is None
        assert await a_build(ground, shards).run()

    asyncio.run(scenario())
    assert ground.rows() == ground.history.index_rows("c~", 9)


def test_a_process_that_does_not_start_leaves_the_build_here(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        for program in ("/bin/false", str(tmp_path / "missing")):
            monkeypatch.setattr(sys, "executable", program)
            shards = source(tmp_path, settings(), clock)
            assert await a_build(ground, shards).run()
            assert await shards.begin(ground.store, "c~", 9, "") is None  # not at once again
            ground.history.set_index("c~", INDEX)
            ground.apply()

    asyncio.run(scenario())
    assert ground.rows() == ground.history.index_rows("c~", 9)
    assert [index.state for index in ground.recorded] == ["ready"] * 2


def test_a_process_that_hangs_is_given_up(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        clock, program = ManualClock(), tmp_path / "hangs"
        program.write_text("#!/bin/sh\ncat > /dev/null")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        task = asyncio.create_task(a_build(ground, source(tmp_path, settings(), clock)).run())
        while not task.done():
            await clock.run(100)
        assert await task

    asyncio.run(scenario())
    assert ground.rows() == ground.history.index_rows("c~", 9)


def test_one_process_at_a_time(ground: Ground, tmp_path: Path) -> None:
    async def scenario() -> None:
        shards = source(tmp_path, settings(small=1))
        first = await shards.begin(ground.store, "c~", 9, "")
        assert isinstance(first, SparkBuild)
        assert await shards.begin(ground.store, "c~", 9, "") is None
        await first.aclose()
        await first.aclose()
        second = await shards.begin(ground.store, "c~", 9, "")
        assert isinstance(second, SparkBuild)
        await second.aclose()

    asyncio.run(scenario())


@pytest.mark.spark
def test_spark_builds_what_this_process_would(ground: Ground, tmp_path: Path) -> None:
    for number in range(100, 2 * SHARD + 100):
        ground.history.put("c~", f"{number:06}", p=number % 1000 if number % 3 else "x")
    later = msgspec.structs.replace(INDEX, number=10)
    ground.history.set_index("c~", later)
    ground.apply()

    async def scenario() -> None:
        shards = source(tmp_path, settings())
        assert await IndexBuild(ground.store, ground, uri="c~", index=later, clock=SystemClock(), shards=shards).run()
        assert await shards.begin(ground.store, "c~", 10, "") is not None  # its turn was given back
        assert shards.current is not None
        await shards.current.aclose()

    asyncio.run(scenario())
    with ground.store.view() as view:
        assert view.index_rows("c~", 10, limit=1_000_000) == ground.history.index_rows("c~", 10)
    assert [index.built for index in ground.recorded] == [f"{SHARD + 39:06}", f"{2 * SHARD + 39:06}", ""]


@pytest.mark.spark
def test_a_build_goes_on_here_when_its_process_is_killed(ground: Ground, tmp_path: Path) -> None:
    for number in range(100, 2 * SHARD + 100):
        ground.history.put("c~", f"{number:06}", p=number % 1000)
    later = msgspec.structs.replace(INDEX, number=10)
    ground.history.set_index("c~", later)
    ground.apply()

    async def scenario() -> None:
        shards = source(tmp_path, settings())

        def kill() -> None:
            if len(ground.recorded) == 0:
                assert shards.current is not None
                assert shards.current.pid is not None
                os.kill(shards.current.pid, signal.SIGKILL)

        ground.before = kill
        assert await IndexBuild(ground.store, ground, uri="c~", index=later, clock=SystemClock(), shards=shards).run()
        assert shards.current is None

    asyncio.run(scenario())
    with ground.store.view() as view:
        assert view.index_rows("c~", 10, limit=1_000_000) == ground.history.index_rows("c~", 10)


@pytest.mark.spark
def test_a_build_that_is_cancelled_ends_its_process(ground: Ground, tmp_path: Path) -> None:
    async def scenario() -> None:
        shards = source(tmp_path, settings())
        task = asyncio.create_task(a_build(ground, shards).run())
        while shards.current is None:
            await asyncio.sleep(0)
        pid = shards.current.pid
        assert pid is not None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert shards.current is None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    asyncio.run(scenario())
    assert ground.recorded == []


def test_the_door_has_large_indexes_built_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "headwater.toml"
    config.write_text("[documents]\nsmall = 0\n")
    monkeypatch.setattr(sys, "executable", "/bin/false")

    async def scenario() -> None:
        async with headwater.open(tmp_path / "data", create=True, config=config) as hw:
            await hw.documents["c~/1"].put({"p": 1})
            await hw.documents["c~"].indexes.create("by-p", sort="p:decimal")
            while (found := await hw.documents["c~"].indexes.status("by-p")).status == "building":
                await asyncio.sleep(0)
            assert (found.status, found.rows) == ("ready", 1)

    asyncio.run(scenario())
    [told] = [record.message for record in caplog.records if "without Spark" in record.message]
    assert told == "Index 2 of c~ is built without Spark: The process has ended; Spark's log may say why."
