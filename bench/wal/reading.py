"""One table's entries out of all: by the region's state, against reading everything and leaving the others out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import mark
from bench.case import Case, Sample, Side
from bench.sizes import Sizes
from bench.wal.filled import TOPICS, opened_region
from headwater.core.errors import Differs
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.region import Region

_TABLE = 3


def reading(folder: Path, sizes: Sizes) -> Iterator[Case]:
    """A fresh log each time: an open one remembers what it has checked."""
    read = Side("region.read", lambda: _round(folder, sizes, _read))
    what = f"wal read of one table in {sizes.tables:,}"
    yield Case(
        what, "entry", read, Side("region.scan, filtered", lambda: _round(folder, sizes, _filtered)), mark.ratio(20), rounds=sizes.rare
    )
    yield Case(
        f"{what}, by columns", "entry", read, Side("log.scan, filtered by Arrow", lambda: _round(folder, sizes, _columns)), rounds=sizes.few
    )


def _round(folder: Path, sizes: Sizes, how: Callable[..., object]) -> Sample:
    expected = sizes.live // sizes.tables

    async def run() -> Sample:
        with EmbeddedLog(folder) as log:
            async with opened_region(log) as region:
                begun = time.perf_counter()
                count = await how(log, region)  # type: ignore[misc]
                seconds = time.perf_counter() - begun
        if count != expected:
            raise Differs(f"Table {_TABLE} has {count} entries, not {expected}.", hint="Keep the folder.")
        return Sample(expected, seconds)

    return asyncio.run(run())


async def _read(log: EmbeddedLog, region: Region) -> int:
    return len([entry async for entry in region.read(_TABLE)])


async def _filtered(log: EmbeddedLog, region: Region) -> int:
    return len([entry async for entry in region.scan() if entry.table == _TABLE])


async def _columns(log: EmbeddedLog, region: Region) -> int:
    """The records of the log from the first live one on: what a reader that knows only the format can do at its best."""
    key = bytes([1]) + TOPICS.region.to_bytes(8, "big") + _TABLE.to_bytes(8, "big")
    count = 0
    places = region.read(_TABLE)
    start = (await places.next_batch())[0].offset
    for batch in log.scan(TOPICS.data, 0, start):
        wanted = np.asarray(pc.starts_with(batch.column("key").cast(pa.binary()), key))
        values = batch.column("value")
        count += len([values[place].as_py() for place in np.flatnonzero(wanted)])
    return count
