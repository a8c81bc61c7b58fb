"""Workers in other processes, which reach the queue by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal

import headwater
from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.machine import processor_time
from bench.place import Place
from bench.queue.opened import DATA
from bench.queue.skip_locked import SkipLocked, postgres
from bench.queue.team import Team, serve
from bench.sizes import Sizes
from headwater.client.queue import OneQueue
from headwater.core.errors import Unavailable
from headwater.server.spawned import SpawnedServer

_QUEUE = "bench"
_PROCESSES, _CONCURRENCY, _CLIENTS = 4, 16, 16
_FILL = 1000
_SLOW = 10  # times fewer rows where each takes a call

Way = Literal["worker", "calls"]


def by_http(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """4 processes with a worker of 16 rows at once each; a function that does nothing."""
    with place.sub("http") as folder, SpawnedServer(folder / "data") as server, _Workers.started(server) as workers:
        name = f"queue by HTTP, {_PROCESSES} processes × {_CONCURRENCY}"
        ours = Side("workers", partial(workers.round, "worker", sizes.jobs))
        few = max(_FILL // _SLOW, sizes.jobs // _SLOW)
        calls = Side("two calls for each row", partial(workers.round, "calls", min(few, sizes.jobs)))
        yield Case(f"{name}, beside calls", "row", ours, calls, mark.ratio(4), rounds=sizes.few)
        try:
            with postgres() as database, SkipLocked.started(database, _CLIENTS) as peer:
                for batch, least, rows in ((1, 3, few), (10, 1, sizes.jobs)):
                    other = Side(f"SKIP LOCKED, {_CLIENTS} clients, {batch} at once", partial(peer.round, min(rows, sizes.jobs), batch))
                    yield Case(f"{name}, beside SKIP LOCKED, {batch} at once", "row", ours, other, mark.ratio(least), rounds=sizes.few)
        except Unavailable as problem:
            yield Skipped(f"{name}, beside SKIP LOCKED", str(problem))


class _Workers:
    def __init__(self, server: SpawnedServer, team: Team) -> None:
        self._server, self._team = server, team
        self._number = 0

    @classmethod
    @contextmanager
    def started(cls, server: SpawnedServer) -> Iterator[_Workers]:
        with Team.started(_PROCESSES, _member, server.url) as team:
            yield cls(server, team)

    def round(self, way: Way, rows: int) -> Sample:
        """The processes finish so many rows, which are put before."""
        asyncio.run(self._fill(rows))
        return self._team.round(way, rows, lambda: processor_time(self._server.pid))

    async def _fill(self, rows: int) -> None:
        async with headwater.open(self._server.url) as hw:
            queue = await hw.queue(_QUEUE, create=True)
            for at in range(0, rows, _FILL):
                numbers = range(self._number + at, self._number + min(at + _FILL, rows))
                await queue.put_many([(f"{number:016}", DATA) for number in numbers])
        self._number += rows


def _member(pipe: Connection, url: str) -> None:
    async def run(way: Way) -> int:
        async with headwater.open(url) as hw:
            return await _WAYS[way](hw.queue(_QUEUE))

    with asyncio.Runner() as runner:
        serve(pipe, lambda way: runner.run(run(way)))


async def _by_worker(queue: OneQueue) -> int:
    async with queue.worker(_nothing, concurrency=_CONCURRENCY, drain=True) as worker:
        return (await worker.run()).done


async def _nothing(row: Any) -> None: ...


async def _by_calls(queue: OneQueue) -> int:
    """Each of the concurrent callers claims one row, and says that it is done, until there is none."""

    async def caller() -> int:
        finished = 0
        while claims := await queue.claim(1, wait="0ms"):
            await queue.done(claims[0].token)
            finished += 1
        return finished

    return sum(await asyncio.gather(*(caller() for _ in range(_CONCURRENCY))))


_WAYS = {"worker": _by_worker, "calls": _by_calls}
