"""Writing: what numbering and the state cost beside the bare log, what batches save, and RocksDB's own log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.peers import rocksdb
from bench.place import TOPIC, Place
from bench.sizes import Sizes
from bench.wal.filled import PAYLOAD, TOPICS, opened_region
from headwater.core.errors import Unavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.group_commit import Appender
from headwater.log.record import Record
from headwater.wal.layout import EMPTY, KEY_LENGTH
from headwater.wal.region import create_region

_LEAST = {1: 0.9, 64: 0.85, 1024: 0.7}
_SEVERAL = 100  # payloads of a batch
_THREADS = 64

Write = Callable[[int], Awaitable[object]]  # of one caller
Clock = Callable[[], float]


def writing(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """n callers with a table each, against n callers of the bare log's group commit with records of the same size."""
    for callers, least in _LEAST.items():
        each = _each(sizes, callers)
        with _region_log(place) as log:
            for name, clock in (("", time.perf_counter), (", processor time", time.process_time)):
                yield Case(
                    f"wal {callers} callers{name}",
                    "write",
                    Side("region.write", lambda clock=clock, each=each, callers=callers, log=log: _region(log, callers, each, clock)),
                    Side("group commit", lambda clock=clock, each=each, callers=callers, log=log: _bare(log, callers, each, clock)),
                    mark.ratio(least),
                    shown="rate" if clock is time.perf_counter else "time",
                )
    with _region_log(place) as log:
        each = _each(sizes, _THREADS)
        yield Case(
            f"wal batches of {_SEVERAL}, {_THREADS} callers",
            "entry",
            Side("region.write", lambda: _region(log, _THREADS, max(1, each // 10), time.perf_counter, _SEVERAL)),
            Side("one payload each", lambda: _region(log, _THREADS, each, time.perf_counter)),
            mark.ratio(10),
        )
        yield from _beside_rocksdb(log, sizes, each)


def _beside_rocksdb(log: EmbeddedLog, sizes: Sizes, each: int) -> Iterator[Case | Skipped]:
    name, value = f"wal {_THREADS} writers beside RocksDB", len(EMPTY) + PAYLOAD
    try:
        with rocksdb.started(log.data) as peer:
            yield Case(
                name,
                "write",
                Side("region.write", lambda: _region(log, _THREADS, each, time.perf_counter)),
                Side(f"rocksdict {peer.version}, synced", lambda: peer.writes(_THREADS, max(1, each // 4), KEY_LENGTH, value)),
                mark.ratio(2),
                rounds=sizes.few,
            )
            yield Case(
                f"wal {_THREADS} writers beside RocksDB's batches of {_THREADS}",
                "write",
                Side("region.write", lambda: _region(log, _THREADS, each, time.perf_counter)),
                Side(f"rocksdict {peer.version}, synced", lambda: peer.writes(1, each, KEY_LENGTH, value, batch=_THREADS)),
            )
    except Unavailable as problem:
        yield Skipped(name, str(problem))


def _each(sizes: Sizes, callers: int) -> int:
    return max(1, min(sizes.callers, 400 * callers) // callers)  # one caller waits for each sync: fewer rounds of it


@contextmanager
def _region_log(place: Place) -> Iterator[EmbeddedLog]:
    """A fresh log with an empty region and an empty topic beside it: on the same disk."""
    with place.log("wal") as log:
        create_region(log, TOPICS)
        yield log


def _region(log: EmbeddedLog, callers: int, each: int, clock: Clock, several: int = 1) -> Sample:
    payloads = [bytes(PAYLOAD)] * several

    async def run() -> Sample:
        async with opened_region(log) as region:
            return await _together(lambda caller: region.write(caller, payloads), callers, each, clock, several)

    return asyncio.run(run())


def _bare(log: EmbeddedLog, callers: int, each: int, clock: Clock) -> Sample:
    one = [Record(bytes(KEY_LENGTH), bytes(len(EMPTY) + PAYLOAD))]

    async def run() -> Sample:
        appender = Appender(lambda batch: log.append(TOPIC, 0, batch))
        try:
            return await _together(lambda caller: appender.append(one), callers, each, clock)
        finally:
            await appender.aclose()

    return asyncio.run(run())


async def _together(write: Write, callers: int, each: int, clock: Clock, pieces: int = 1) -> Sample:
    async def caller(number: int) -> None:
        for _ in range(each):
            await write(number)

    cpu, begun = time.process_time(), clock()
    await asyncio.gather(*(caller(number) for number in range(callers)))
    return Sample(callers * each * pieces, clock() - begun, time.process_time() - cpu)
