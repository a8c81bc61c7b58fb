"""Many rows: what each takes in memory, and how long a queue with them takes to open, also where many more were finished before."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench import mark
from bench.case import Case, Peak, Sample, Side
from bench.place import Place, Unsynced, sync_file
from bench.queue.opened import DATA, new_rows, opened_queue
from bench.sizes import Sizes
from bench.wal.filled import TOPICS
from headwater.core.errors import Differs
from headwater.log.embedded.log import EmbeddedLog

_TABLE = 1
_AT_ONCE = 100  # rows of a put, of a claim and of those that are done at once
_WEEK = 7 * 86_400_000

Measure = Callable[[Path, int], Sample | Peak]


def holding(place: Place, sizes: Sizes) -> Iterator[Case]:
    """Each measurement in a process of its own: memory that another has used would be used again."""
    with place.sub("holding") as folder:
        rows = sizes.queued
        once = {"rounds": 1, "warm": False}
        bare = Side("a dict of keys and data", partial(_alone, _bare_rows, folder, rows))
        yield Case(
            f"queue memory per row, {rows:,} rows put",
            "row",
            Side("queue", partial(_alone, _put_rows, folder, rows)),
            bare,
            mark.size(400),
            shown="bytes",
            **once,
        )
        yield Case(
            f"queue memory per row, {rows:,} rows, opened anew",
            "row",
            Side("queue", partial(_alone, _held, folder, rows)),
            bare,
            mark.size(400),
            shown="bytes",
            **once,
        )
        yield _opening(f"queue open, {rows:,} rows", folder, sizes)
    with place.sub("finished") as folder:
        _alone(partial(_finished, sizes.finished), folder, rows)
        yield _opening(f"queue open, {rows:,} rows, after {sizes.finished:,} finished ones", folder, sizes)


def _opening(name: str, folder: Path, sizes: Sizes) -> Case:
    return Case(
        name,
        "open",
        Side("until a first claim", partial(_alone, _opened, folder, sizes.queued)),
        Side("log.scan of its records", partial(_alone, _scanned, folder, sizes.queued)),
        mark.time(5, "< 5 s"),
        shown="time",
        rounds=sizes.rare,
        warm=False,
    )


def _alone(measure: Measure, folder: Path, rows: int) -> Sample | Peak:
    """Measure in a fresh process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, measure, folder, rows), daemon=True)
    process.start()
    theirs.close()  # so that the end of the process ends the wait
    try:
        measurement = ours.recv()
    except EOFError:
        raise Differs("The process that measures has ended.", hint="See what it said.") from None
    finally:
        process.join()
    assert isinstance(measurement, Sample | Peak)
    return measurement


def _run(pipe: Connection, measure: Measure, folder: Path, rows: int) -> None:
    pipe.send(measure(folder, rows))


def _put_rows(folder: Path, rows: int) -> Peak:
    async def run() -> Peak:
        with EmbeddedLog(folder, files=Unsynced()) as log:
            async with opened_queue(log, _TABLE) as queue:
                await queue.count()
                before = _resident()
                for at in range(0, rows, _AT_ONCE):
                    await queue.put(new_rows(at, min(_AT_ONCE, rows - at)))
                return Peak(rows, max(1, _resident() - before))

    return _synced(folder, asyncio.run(run()))


def _held(folder: Path, rows: int) -> Peak:
    async def run() -> Peak:
        before = _resident()
        with EmbeddedLog(folder) as log:
            async with opened_queue(log, _TABLE) as queue:
                await _checked(queue, rows)
                return Peak(rows, max(1, _resident() - before))

    return asyncio.run(run())


def _bare_rows(folder: Path, rows: int) -> Peak:
    before = _resident()
    held = {b"%016d" % number: bytes(bytearray(DATA)) for number in range(rows)}
    return Peak(len(held), max(1, _resident() - before))


def _finished(finished: int, folder: Path, rows: int) -> Sample:
    """Rows that stay, and after them as many as asked for that are put, claimed and done."""

    async def run() -> None:
        with EmbeddedLog(folder, files=Unsynced()) as log:
            async with opened_queue(log, _TABLE) as queue:
                later = time.time_ns() // 1_000_000 + _WEEK
                for at in range(0, rows - 1, _AT_ONCE):
                    await queue.put(new_rows(at, min(_AT_ONCE, rows - 1 - at), process_date=later))
                tokens: list[str] = []
                for at in range(0, finished, _AT_ONCE):
                    await queue.put(new_rows(rows + at, _AT_ONCE))
                    tokens = [claim.token for claim in (await queue.claim(_AT_ONCE, done=tokens)).claims]
                await queue.done(tokens)
                await queue.put(new_rows(rows - 1, 1))
                await queue.mark()

    asyncio.run(run())
    return _synced(folder, Sample(finished, 1))


def _opened(folder: Path, rows: int) -> Sample:
    async def run() -> Sample:
        begun, cpu = time.perf_counter(), time.process_time()
        with EmbeddedLog(folder) as log:
            async with opened_queue(log, _TABLE) as queue:
                claimed = await queue.claim(1)
                sample = Sample(1, time.perf_counter() - begun, time.process_time() - cpu)
                await queue.release([claim.token for claim in claimed.claims])
                await _checked(queue, rows)
                return sample

    return asyncio.run(run())


def _scanned(folder: Path, rows: int) -> Sample:
    begun, cpu = time.perf_counter(), time.process_time()
    with EmbeddedLog(folder) as log:
        for _ in log.scan(TOPICS.data, 0, log.bounds(TOPICS.data, 0).start):
            pass
    return Sample(1, time.perf_counter() - begun, time.process_time() - cpu)


async def _checked(queue: object, rows: int) -> None:
    counts = await queue.count()  # type: ignore[attr-defined]
    if (count := counts.due + counts.future + counts.processing) != rows:
        raise Differs(f"The queue has {count} rows, not {rows}.", hint="Keep the folder.")


def _synced(folder: Path, measurement: Sample | Peak) -> Sample | Peak:
    for path in folder.rglob("*.log"):  # what the disk still has to write would disturb the rounds
        sync_file(path)
    return measurement


def _resident() -> int:
    """This process's bytes in memory, without the pages of mapped files."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
