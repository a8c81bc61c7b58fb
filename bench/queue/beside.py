"""A queue in one process beside other queues: rows in PostgreSQL, beanstalkd, procrastinate and awa. Each claims rows and finishes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import headwater
from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.machine import processor_time
from bench.peers import jobs
from bench.place import Place
from bench.queue.beanstalk import Beanstalk
from bench.queue.opened import DATA, Rounds, together
from bench.queue.skip_locked import Postgres, SkipLocked, postgres
from bench.sizes import Sizes
from headwater.client.queue import OneQueue
from headwater.core.errors import Differs, HeadwaterError, Unavailable
from headwater.core.ids import random_id

_CLIENTS = 16
_LEAST = {1: 2.5, 10: 2.0, 100: 4.0}  # rows at once → least ratio
_PEERS: dict[jobs.Peer, float] = {"procrastinate": 20, "awa": 2}
_SLOW: dict[jobs.Peer, int] = {"procrastinate": 40, "awa": 1}  # times fewer jobs for who is slow
_FILL = 1000


def beside(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """16 clients or workers, on each side."""
    with place.log("beside") as log, Rounds.opened(log) as rounds:
        yield from _beanstalkd(rounds, sizes)
        try:
            with postgres() as server:
                yield from _skip_locked(rounds, sizes, server)
                yield from _workers(place, sizes, server)
        except Unavailable as problem:
            yield Skipped("queue beside PostgreSQL", str(problem))


# -- rows in PostgreSQL ---------------------------------------------------------------------------------------------------


def _skip_locked(rounds: Rounds, sizes: Sizes, server: Postgres) -> Iterator[Case]:
    with SkipLocked.started(server, _CLIENTS) as peer:
        for batch, least in _LEAST.items():
            rows = max(1, sizes.jobs // (10 if batch == 1 else 1))
            ours = partial(rounds.claims_and_dones, _CLIENTS, max(1, sizes.jobs // _CLIENTS // batch), batch=batch)
            other = Side(f"SKIP LOCKED, {_CLIENTS} clients", partial(peer.round, rows, batch))
            name = f"queue claim, then done, {_CLIENTS} workers, {batch} at once, beside SKIP LOCKED"
            yield Case(name, "row", Side("queue", ours), other, mark.ratio(least), rounds=sizes.few)


# -- beanstalkd -------------------------------------------------------------------------------------------------------------


def _beanstalkd(rounds: Rounds, sizes: Sizes) -> Iterator[Case | Skipped]:
    name = f"queue claim, then done, {_CLIENTS} workers, beside beanstalkd"
    each = max(1, sizes.jobs // _CLIENTS // 4)
    try:
        with _Reserving.started(rounds.runner) as peer:
            ours = Side("queue", partial(rounds.claims_and_dones, _CLIENTS, each))
            yield Case(name, "row", ours, Side("beanstalkd, synced", partial(peer.round, each)), mark.ratio(2), rounds=sizes.rounds)
    except Unavailable as problem:
        yield Skipped(name, str(problem))


class _Reserving:
    """Clients of beanstalkd on the loop of the queue."""

    def __init__(self, runner: asyncio.Runner, clients: list[Beanstalk], pid: int) -> None:
        self._runner, self._clients, self._pid = runner, clients, pid

    @classmethod
    @contextmanager
    def started(cls, runner: asyncio.Runner) -> Iterator[_Reserving]:
        """A server that runs already, or one that is stopped afterwards. Errors: `Unavailable`."""
        from tools.services import release, up
        from tools.services.process import current

        me = current()
        try:
            running = up("beanstalkd", kept=False, user=me)
        except HeadwaterError as problem:
            raise Unavailable(str(problem), hint="See `python -m tools.services up beanstalkd`.") from problem
        stack = AsyncExitStack()
        try:
            tube = f"bench-{random_id()[:8]}"
            clients = [runner.run(Beanstalk.connect(*running.beanstalkd, tube)) for _ in range(_CLIENTS)]
            for client in clients:
                stack.push_async_callback(client.aclose)
            yield cls(runner, clients, running.pid("beanstalkd-1") or 0)
        finally:
            runner.run(stack.aclose())
            release(me)

    def round(self, each: int) -> Sample:
        """Each client reserves a job and deletes it, so many times. The jobs are put before."""
        amount = len(self._clients) * each

        async def fill() -> None:
            for at in range(0, amount, _FILL):
                await self._clients[0].put([DATA] * min(_FILL, amount - at))

        async def caller(number: int) -> None:
            client = self._clients[number]
            for _ in range(each):
                job = await client.reserve()
                if job is None:
                    raise Differs("beanstalkd has fewer jobs than were put.", hint="Use a tube that nobody else uses.")
                await client.delete(job)

        self._runner.run(fill())
        before = processor_time(self._pid)
        sample = self._runner.run(together(caller, len(self._clients), amount, time.perf_counter))
        return sample._replace(cpu=sample.cpu + processor_time(self._pid) - before)


# -- workers ------------------------------------------------------------------------------------------------------------------


def _workers(place: Place, sizes: Sizes, server: Postgres) -> Iterator[Case | Skipped]:
    """A worker that runs 16 functions at once, which do nothing."""
    with place.sub("worker") as folder, _Worker.opened(folder) as worker:
        ours = Side("worker", partial(worker.round, sizes.jobs))
        for peer, least in _PEERS.items():
            name = f"queue worker, {_CLIENTS} at once, beside {peer}"
            try:
                with jobs.started(peer, folder, server.uri) as other:
                    side = Side(f"{peer} {other.version}", partial(other.round, max(1, sizes.jobs // _SLOW[peer]), _CLIENTS, len(DATA)))
                    yield Case(name, "row", ours, side, mark.ratio(least), rounds=sizes.few)
            except Unavailable as problem:
                yield Skipped(name, str(problem))


class _Worker:
    """A queue of a directory that this process owns, reached through the door."""

    def __init__(self, runner: asyncio.Runner, queue: OneQueue) -> None:
        self._runner, self._queue = runner, queue
        self._number = 0

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[_Worker]:
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()

            async def opened() -> OneQueue:
                hw = await stack.enter_async_context(headwater.open(folder / "data", create=True))
                return await hw.queue("bench", create=True)

            try:
                yield cls(runner, runner.run(opened()))
            finally:
                runner.run(stack.aclose())

    def round(self, rows: int) -> Sample:
        """So many rows, put before, that the worker runs."""
        return self._runner.run(self._run(rows))

    async def _run(self, rows: int) -> Sample:
        for at in range(0, rows, _FILL):
            numbers = range(self._number + at, self._number + min(at + _FILL, rows))
            await self._queue.put_many([(f"{number:016}", DATA) for number in numbers])
        self._number += rows
        cpu, begun = time.process_time(), time.perf_counter()
        async with self._queue.worker(_nothing, concurrency=_CLIENTS, drain=True) as worker:
            done = (await worker.run()).done
        sample = Sample(rows, time.perf_counter() - begun, time.process_time() - cpu)
        if done != rows:
            raise Differs(f"The worker has finished {done} rows, not {rows}.", hint="Look at the queue.")
        return sample


async def _nothing(row: Any) -> None: ...
