"""How long writes take while a region marks, takes a snapshot and cleans."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench import mark
from bench.case import Case, Sample, Side
from bench.sizes import Sizes
from bench.wal.filled import PAYLOAD, opened_region
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.region import Region

_CALLERS = 64
_SHARE = 0.99

Work = Callable[[Region], Awaitable[object]]


def latency(folder: Path, sizes: Sizes) -> Iterator[Case]:
    """64 writers, each waiting for its own write: the time within which 99 of 100 are answered, against the same with nothing beside it."""
    quiet = Side("nothing beside", lambda: _round(folder, sizes, None))
    for name, work, most in (("marks", _marks(sizes), 1.5), ("a snapshot", _snapshot, 4), ("snapshot and clean", _clean, 4)):
        busy = Side(name, lambda work=work: _round(folder, sizes, work))
        # Many rounds: the disk alone makes the time with nothing beside one or two syncs long.
        rounds = max(sizes.few, sizes.turns // 8)
        yield Case(f"wal p99 of writes during {name}", "write", busy, quiet, mark.slowdown(most), shown="time", rounds=rounds)


def _marks(sizes: Sizes) -> Work:
    async def marks(region: Region) -> None:
        for number in range(sizes.marks):
            table = number % sizes.tables
            await region.mark_delete_up_to(table, region.recovered.meta.tables[table].marked)

    return marks


async def _snapshot(region: Region) -> None:
    await region.snapshot()


async def _clean(region: Region) -> None:
    await region.snapshot()
    await region.clean()


def _round(folder: Path, sizes: Sizes, work: Work | None) -> Sample:
    """With `work`, writes that were answered while it lasted count, and at least the next one; without, as many as a round has."""

    async def run() -> Sample:
        latencies: list[float] = []
        ended = asyncio.Event()

        async def caller(region: Region, table: int) -> None:
            payloads = [bytes(PAYLOAD)]
            while not ended.is_set():
                begun = time.perf_counter()
                await region.write(table, payloads)
                latencies.append(time.perf_counter() - begun)

        async def enough() -> None:
            while len(latencies) < sizes.callers:
                await asyncio.sleep(0.005)

        with EmbeddedLog(folder) as log:
            async with opened_region(log) as region:
                tables = list(region.recovered.meta.tables)[: sizes.tables]
                # A clean has something to remove, and a mark something to flush.
                await asyncio.gather(*(region.mark_delete_up_to(table, region.recovered.meta.tables[table].marked) for table in tables))
                callers = [asyncio.create_task(caller(region, number % sizes.tables)) for number in range(_CALLERS)]
                while len(latencies) < _CALLERS:  # all have begun
                    await asyncio.sleep(0.001)
                latencies.clear()
                await (enough() if work is None else work(region))
                while not latencies:  # the work was shorter than a write, which has waited for it all the same
                    await asyncio.sleep(0.001)
                sorted_latencies = sorted(latencies)
                ended.set()
                await asyncio.gather(*callers)
        return Sample(1, sorted_latencies[int(len(sorted_latencies) * _SHARE)])

    return asyncio.run(run())
