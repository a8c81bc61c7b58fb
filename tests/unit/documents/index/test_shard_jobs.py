"""Shards as jobs of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from quick_spark import quick
from tests.unit.documents.index.test_build import INDEX, Ground

from headwater.core.document_errors import UnknownIndex
from headwater.core.settings import Settings
from headwater.documents.index.shard import IndexShard, ShardRows, add_shard
from headwater.documents.index.shard_jobs import StorePlace, rows_in_task, shard_rows
from headwater.documents.store_address import open_stores
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark.lazy import LazySpark
from headwater.spark.ranges import Range

EACH = 3000


@pytest.fixture
def place(tmp_path: Path) -> StorePlace:
    return StorePlace(settings=Settings(), data=tmp_path, partition=0, generation="g")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as log:
        yield log


@pytest.fixture
def ground(place: StorePlace) -> Iterator[Ground]:
    with open_stores(place.settings, place.data) as stores:
        yield Ground(stores.partition(0, "g"))


def test_a_task_makes_the_rows_of_its_shard(ground: Ground, place: StorePlace, log: EmbeddedLog) -> None:
    for number in range(10):
        ground.history.put("c~", str(number), p=-number)
    ground.history.set_index("c~", INDEX)
    ground.apply()
    batch = rows_in_task(place, (IndexShard("c~", 9, "", "4"), IndexShard("c~", 9, "4")), log, Range("index", 1, 0, 1))
    made = msgspec.msgpack.decode(batch.column("rows")[0].as_py(), type=ShardRows)
    assert (made.after, made.last, made.done, made.count) == ("4", "9", True, 5)
    assert made.rows == sorted(ground.history.index_rows("c~", 9)[:5], key=lambda row: row.item)


@pytest.mark.spark
def test_jobs_make_all_rows_in_the_order_of_the_ids(ground: Ground, place: StorePlace, log: EmbeddedLog) -> None:
    """Five shards, two at once. One of them has rows so long that it is cut, and the next job begins there."""
    for number in range(4 * EACH + 100):
        ground.history.put("c~", f"{number:06}", p="x" * 600 if EACH <= number < EACH + 2000 else number % 1000)
    ground.history.set_index("c~", msgspec.structs.replace(INDEX, sort_by=INDEX.sort_by * 40))
    ground.apply()
    spark = LazySpark(log.address, quick())
    try:
        made = list(shard_rows(place, spark.runner(), "c~", 9, after="000009", tasks=1, each=EACH))
        assert [one.cut for one in made] == [False, True, False, False, False]
        assert (made[0].after, [one.after for one in made[1:]]) == ("000009", [one.last for one in made[:-1]])
        assert [add_shard(ground.store, "c~", 9, one) for one in [ShardRows(after="", last="000009"), *made]][-1] is not None
        assert len(ground.rows()) == 4 * EACH + 90
        with pytest.raises(UnknownIndex):
            list(shard_rows(place, spark.runner(), "c~", 10, after="", tasks=1))
    finally:
        spark.close()
