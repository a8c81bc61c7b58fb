"""Indexes of documents in a real Cassandra, built by Spark's tasks, which write the rows themselves."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from quick_spark import quick
from tests.unit.documents.index.test_build import INDEX, Ground

from headwater.core.clock import SystemClock
from headwater.core.settings import CassandraSettings, Settings, StoreSettings
from headwater.core.units import Duration
from headwater.documents.index.build import IndexBuild
from headwater.documents.index.shard import add_shard, cut_shards
from headwater.documents.index.shard_jobs import StorePlace, shard_rows
from headwater.documents.index.spark_build import SparkBuilds
from headwater.documents.settings import DocumentSettings
from headwater.documents.store_address import open_stores
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark.lazy import LazySpark
from headwater.store.cassandra.keyspace import Keyspace

pytestmark = [pytest.mark.spark, pytest.mark.service("cassandra")]
ITEMS = 3000


@pytest.fixture
def settings(cassandra: tuple[str, int]) -> Iterator[Settings]:
    host, port = cassandra
    where = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=f"indexed_{uuid.uuid4().hex}", timeout=Duration(60_000))
    yield Settings(
        store=StoreSettings(engine="cassandra"), cassandra=where, spark=quick(), sections={"documents": DocumentSettings(small=0)}
    )
    with Keyspace(where) as keyspace:
        keyspace.run(f"drop keyspace {where.keyspace}")


@pytest.fixture
def ground(settings: Settings, tmp_path: Path) -> Iterator[Ground]:
    with open_stores(settings, tmp_path) as stores:
        made = Ground(stores.partition(0, "g"))
        for number in range(ITEMS):
            made.history.put("c~", f"{number:06}", p=number % 100)
        made.history.set_index("c~", INDEX)
        made.apply()
        yield made


def test_tasks_write_the_rows(ground: Ground, settings: Settings, tmp_path: Path) -> None:
    async def scenario() -> None:
        with EmbeddedLog(tmp_path) as log:
            shards = SparkBuilds(settings, tmp_path, log.address, clock=SystemClock())
            build = IndexBuild(ground.store, ground, uri="c~", index=ground.definition(), clock=SystemClock(), shards=shards)
            assert await build.run()

    asyncio.run(scenario())
    assert ground.rows() == ground.history.index_rows("c~", 9)
    assert ground.definition() == msgspec.structs.replace(INDEX, state="ready", rows=ITEMS)
    with ground.store.view() as view:
        ground.history.check(view)


def test_changes_beside_the_tasks_count(ground: Ground, settings: Settings, tmp_path: Path) -> None:
    """Items change, go and come between the shards, and while the tasks of the next ones write."""
    with EmbeddedLog(tmp_path) as log:
        spark = LazySpark(log.address, settings.spark)
        place = StorePlace(settings=settings, data=tmp_path, partition=0, generation="g")
        assert len(cut_shards(ground.store, "c~", 9, after="", limit=99, each=200)) == 16
        try:
            for turn, made in enumerate(shard_rows(place, spark.runner(), "c~", 9, after="", tasks=2, each=200)):
                assert made.rows == []
                for number in range(turn, ITEMS, 50):
                    if number % 3:
                        ground.history.put("c~", f"{number:06}", p=-turn)
                    elif f"{number:06}" in ground.history.rows["c~"]:
                        ground.history.delete("c~", f"{number:06}")
                ground.history.put("c~", f"new-{turn}", p=turn)
                ground.apply()
                assert add_shard(ground.store, "c~", 9, made) is not None
        finally:
            spark.close()
    assert ground.rows() == ground.history.index_rows("c~", 9)
    ground.history.set_index("c~", msgspec.structs.replace(INDEX, state="ready"))
    ground.apply()
    with ground.store.view() as view:
        ground.history.check(view)
