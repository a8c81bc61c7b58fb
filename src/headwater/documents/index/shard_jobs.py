"""Works off the shards of an index as jobs of Spark: several shards a job, each a task. A job runs while the last one's rows are taken.

Tasks are given places, and read the items themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from headwater.core.memory import uncollected
from headwater.core.settings import Settings
from headwater.documents.index.shard import SHARD, IndexShard, ShardRows, cut_shards, index_shard
from headwater.documents.store_address import open_stores
from headwater.log import Log

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.spark.ranges import Range, RangeJob, Runner

_TURNS: Final = 2  # shards of a job for each task that runs at once: the rows of two jobs are in memory
_LABEL: Final = "index"


class StorePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition's store is, for processes that open it. `data`: the data directory."""

    settings: Settings
    data: Path
    partition: int
    generation: str


def shard_rows(
    place: StorePlace, runner: Runner, uri: str, number: int, *, after: str, tasks: int, each: int = SHARD
) -> Iterator[ShardRows]:
    """The rows of all items behind an id, shard by shard, in the order of the ids. `tasks`: how many run at once. `each`: items of a shard.

    Errors: those of `index_shard`, and of `Runner`.
    """
    from headwater.spark.ranges import Range

    with open_stores(place.settings, place.data) as stores:
        store = stores.partition(place.partition, place.generation)

        def begin(after: str) -> RangeJob:
            shards = tuple(cut_shards(store, uri, number, after=after, limit=tasks * _TURNS, each=each))
            ranges = [Range(_LABEL, at, 0, 1) for at in range(len(shards))]
            return runner.start(ranges, partial(rows_in_task, place, shards), schema=rows_schema())

        job = begin(after)
        try:
            while True:
                built_shards = _kept([msgspec.msgpack.decode(table.column("rows")[0].as_py(), type=ShardRows) for table in job.result()])
                if built_shards[-1].done:
                    yield from built_shards
                    return
                job = begin(built_shards[-1].last)
                yield from built_shards
        finally:
            job.cancel()


def rows_in_task(place: StorePlace, shards: tuple[IndexShard, ...], log: Log, given: Range) -> pa.RecordBatch:
    """Runs inside a Spark task: opens the store, and works off the shard whose number is the range's partition."""
    import pyarrow as pa

    with open_stores(place.settings, place.data) as stores, uncollected():
        shard = index_shard(stores.partition(place.partition, place.generation), shards[given.partition])
        return pa.RecordBatch.from_pydict({"rows": [msgspec.msgpack.encode(shard)]}, schema=rows_schema())


def rows_schema() -> pa.Schema:
    """What a task sends back: `ShardRows` as MessagePack."""
    import pyarrow as pa

    return pa.schema([("rows", pa.large_binary())])


def _kept(shards: list[ShardRows]) -> list[ShardRows]:
    """Shards up to the first that was cut: behind it, a row would be missing."""
    cut = next((at for at, shard in enumerate(shards) if shard.cut), len(shards) - 1)
    return shards[: cut + 1]
