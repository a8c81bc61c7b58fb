"""Opening a region from its snapshot, and how large the snapshot and the state in memory are."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from bench import mark
from bench.case import Case, Peak, Sample, Side
from bench.sizes import Sizes
from bench.wal.filled import TOPICS, opened_region
from headwater.core.errors import Differs
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region_meta import RegionMeta

Made = TypeVar("Made")
State = Callable[[EmbeddedLog], RegionMeta]


def opening(folder: Path, sizes: Sizes) -> Iterator[Case]:
    """`open_region` against a scan of all records; bytes of the snapshot and of memory against a bare column of offsets."""
    yield Case(
        f"wal open, {sizes.entries:,} records, {sizes.live:,} live",
        "open",
        Side("from the snapshot", lambda: _opened(folder, sizes.live)),
        Side("full scan", lambda: _scanned(folder, sizes.live)),
        mark.ratio(15),
        shown="time",
        rounds=sizes.few,
    )
    column = Side("a column of int64", lambda: _column(sizes.live))
    once = {"rounds": 1, "warm": False}
    yield Case(
        "wal snapshot per live entry", "entry", Side("snapshot", lambda: _stored(folder)), column, mark.size(4), shown="bytes", **once
    )
    for name, state in (("after opening", _by_snapshot), ("after a full scan", _by_scan)):
        yield Case(
            f"wal memory per live entry, {name}",
            "entry",
            Side("state", lambda state=state: _held(folder, state)),
            column,
            mark.size(24),
            shown="bytes",
            **once,
        )


def _opened(folder: Path, live: int) -> Sample:
    async def run() -> Sample:
        begun = time.perf_counter()
        with EmbeddedLog(folder) as log:
            async with opened_region(log) as region:
                seconds = time.perf_counter() - begun
                return Sample(1, _checked(seconds, region.recovered.meta, live))

    return asyncio.run(run())


def _scanned(folder: Path, live: int) -> Sample:
    begun = time.perf_counter()
    with EmbeddedLog(folder) as log:
        meta = full_scan(log, TOPICS).meta
        return Sample(1, _checked(time.perf_counter() - begun, meta, live))


def _checked(seconds: float, meta: RegionMeta, live: int) -> float:
    if meta.live != live:
        raise Differs(f"The region has {meta.live} live entries, not {live}.", hint="Keep the folder.")
    return seconds


def _by_snapshot(log: EmbeddedLog) -> RegionMeta:
    return recover(log, TOPICS).meta


def _by_scan(log: EmbeddedLog) -> RegionMeta:
    return full_scan(log, TOPICS).meta


def _stored(folder: Path) -> Peak:
    """The newest snapshot in the meta topic, as it lies there."""
    with EmbeddedLog(folder) as log:
        recovery = recover(log, TOPICS)
        newest = recovery.snapshots[-1]
        records = log.read_at(TOPICS.meta, 0, range(newest.first, newest.last + 1))
        return Peak(recovery.meta.live, sum(len(record.value or b"") + len(record.key or b"") for record in records if record is not None))


def _held(folder: Path, state: State) -> Peak:
    """What stays allocated for the state."""
    with EmbeddedLog(folder) as log:
        log.bounds(TOPICS.data, 0)
        allocation = _allocated(lambda: state(log))
        return Peak(allocation[0].live, allocation[1])


def _column(live: int) -> Peak:
    return Peak(live, _allocated(lambda: np.arange(live))[1])


def _allocated(make: Callable[[], Made]) -> tuple[Made, int]:
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        return made, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
