"""Writing: what numbering and the state cost beside the bare log, what batches save, and RocksDB's own log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial

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
from headwater.wal.region import Region
from headwater.wal.region_creation import create_region

_LEAST = {1: 0.9, 64: 0.85, 1024: 0.7}  # callers → least ratio
_EACH = {1: 25, 64: 40, 1024: 20}  # callers → writes of each in a round: short rounds see the same moods of the disk on both sides
_SEVERAL = 100  # payloads of a batch
_THREADS = 64

Clock = Callable[[], float]


def writing(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """n callers with a table each, against n callers of the bare log's group commit with records of the same size."""
    with place.log("wal") as log:
        create_region(log, TOPICS)
        with _Writers.opened(log) as writers:
            for callers, least in _LEAST.items():
                for name, clock in (("", time.perf_counter), (", processor time", time.process_time)):
                    yield Case(
                        f"wal {callers} callers{name}",
                        "write",
                        Side("region.write", partial(writers.region, callers, _EACH[callers], clock)),
                        Side("group commit", partial(writers.bare, callers, _EACH[callers], clock)),
                        mark.ratio(least),
                        shown="rate" if clock is time.perf_counter else "time",
                        rounds=sizes.turns if callers < 1024 else None,
                    )
            yield Case(
                f"wal batches of {_SEVERAL}, {_THREADS} callers",
                "entry",
                Side("region.write", partial(writers.region, _THREADS, 2, several=_SEVERAL)),
                Side("one payload each", partial(writers.region, _THREADS, _EACH[_THREADS])),
                mark.ratio(10),
                rounds=sizes.turns,
            )
            yield from _beside_rocksdb(log, sizes, writers)


def _beside_rocksdb(log: EmbeddedLog, sizes: Sizes, writers: _Writers) -> Iterator[Case | Skipped]:
    name, each, value = f"wal {_THREADS} writers beside RocksDB", _EACH[_THREADS] // 4, len(EMPTY) + PAYLOAD
    ours = Side("region.write", partial(writers.region, _THREADS, each))
    try:
        with rocksdb.started(log.data) as peer:
            label = f"rocksdict {peer.version}, synced"
            yield Case(name, "write", ours, Side(label, partial(peer.writes, _THREADS, each, KEY_LENGTH, value)), mark.ratio(2))
            batches = Side(label, partial(peer.writes, 1, each, KEY_LENGTH, value, batch=_THREADS))
            yield Case(f"{name}'s batches of {_THREADS}", "write", ours, batches, rounds=sizes.turns)
    except Unavailable as problem:
        yield Skipped(name, str(problem))


class _Writers:
    """A region and a bare topic of one log, both open for all rounds: opening syncs more than a short round does."""

    def __init__(self, runner: asyncio.Runner, region: Region, appender: Appender) -> None:
        self._runner, self._region, self._appender = runner, region, appender

    @classmethod
    @contextmanager
    def opened(cls, log: EmbeddedLog) -> Iterator[_Writers]:
        async def appender() -> Appender:
            return Appender(lambda batch: log.append(TOPIC, 0, batch))

        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            region, bare = runner.run(stack.enter_async_context(opened_region(log))), runner.run(appender())
            try:
                yield cls(runner, region, bare)
            finally:
                runner.run(bare.aclose())
                runner.run(stack.aclose())

    def region(self, callers: int, each: int, clock: Clock = time.perf_counter, *, several: int = 1) -> Sample:
        payloads, write = [bytes(PAYLOAD)] * several, self._region.write

        async def caller(table: int) -> None:
            for _ in range(each):
                await write(table, payloads)

        return self._runner.run(_together(caller, callers, callers * each * several, clock))

    def bare(self, callers: int, each: int, clock: Clock) -> Sample:
        records, append = [Record(bytes(KEY_LENGTH), bytes(len(EMPTY) + PAYLOAD))], self._appender.append

        async def caller(number: int) -> None:
            for _ in range(each):
                await append(records)

        return self._runner.run(_together(caller, callers, callers * each, clock))


async def _together(caller: Callable[[int], Coroutine[None, None, None]], callers: int, amount: int, clock: Clock) -> Sample:
    """The clock starts when all callers wait for the word: making them is no part of writing."""
    start = asyncio.Event()

    async def called(number: int) -> None:
        await start.wait()
        await caller(number)

    tasks = [asyncio.create_task(called(number)) for number in range(callers)]
    await asyncio.sleep(0)
    cpu, begun = time.process_time(), clock()
    start.set()
    await asyncio.gather(*tasks)
    return Sample(amount, clock() - begun, time.process_time() - cpu)
