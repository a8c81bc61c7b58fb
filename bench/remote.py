"""An append of one through a server: the processor time of both processes beside that of a bare echo over the same kind of socket."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import uvloop

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.place import TOPIC, Place, records
from bench.sizes import Sizes
from headwater.client.http_pool import connect_unix
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.server.spawned import SpawnedServer

_MEMORY = Path("/dev/shm")  # a disk whose sync costs nothing: what is left is our own
_MARK = mark.both(mark.time(300e-6, "≤ 0.3 ms"), mark.ratio(0.25))
_REQUEST, _ANSWER = 320, 120  # bytes that an append of one and its answer take
_CALLERS = (1, 64)


def remote(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Over the Unix socket and over the port. Seconds are those that client and server had a processor, taken together.

    The mark is for one caller over the Unix socket on a disk in memory: a sync's own cost is not ours. The same on the real disk stands
    beside it.
    """
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=_MEMORY) as memory, place.sub("remote") as folder:
        for where, data in (("memory", Path(memory)), ("disk", folder)):
            with SpawnedServer(data / "data") as server, _Echo.started() as echo:
                for way, unix in (("unix", server.data / "server.sock"), ("port", None)):
                    for callers in _CALLERS:
                        client = _Client(server, unix, callers)
                        yield Case(
                            f"remote append, {where}, {way}, {callers}",
                            "record",
                            Side("append of one", partial(client.round, sizes.callers // 4)),
                            Side("bare echo", partial(echo.round, sizes.callers, callers)),
                            _MARK if (where, way, callers) == ("memory", "unix", 1) else None,
                            shown="time",
                        )


class _Client:
    """Appends one record at a time through the door's remote log, on the loop that programs use by default."""

    def __init__(self, server: SpawnedServer, unix: Path | None, callers: int) -> None:
        self._server, self._unix, self._callers = server, unix, callers

    def round(self, count: int) -> Sample:
        return asyncio.run(self._append(max(1, count // self._callers)))

    async def _append(self, count: int) -> Sample:
        log = remote_log(self._server.url, token=None, clock=SystemClock(), unix=self._unix)
        await log.create_topic(TOPIC)
        one = records(1)

        async def once() -> None:
            await log.append(TOPIC, 0, one)

        await once()
        sample = await _measured(self._server.pid, once, count, self._callers)
        await log.aclose()
        return sample


class _Echo:
    """A process that answers so many bytes for so many, over a Unix socket, on the loop that the server runs on."""

    def __init__(self, path: Path, pid: int) -> None:
        self._path, self._pid = path, pid

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[_Echo]:
        context = multiprocessing.get_context("spawn")
        with tempfile.TemporaryDirectory(prefix="echo-") as folder:  # a path as short as that of a socket has to be
            path = Path(folder) / "echo.sock"
            ours, theirs = context.Pipe()
            process = context.Process(target=_echo, args=(path, theirs), daemon=True)
            process.start()
            theirs.close()  # so that the end of the process ends the wait
            try:
                ours.recv()
                assert process.pid is not None
                yield cls(path, process.pid)
            finally:
                process.kill()
                process.join()

    def round(self, count: int, callers: int) -> Sample:
        return asyncio.run(self._ask(max(1, count // callers), callers))

    async def _ask(self, count: int, callers: int) -> Sample:
        loop = asyncio.get_running_loop()
        free = []
        for _ in range(callers):
            free.append((await loop.create_unix_connection(_Asking, sock=await connect_unix(self._path)))[1])

        async def once() -> None:
            asking = free.pop()
            await asking.ask(loop)
            free.append(asking)

        await once()
        sample = await _measured(self._pid, once, count, callers)
        for asking in free:
            asking.transport.close()
        return sample


class _Asking(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def ask(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        self._answered: asyncio.Future[None] = loop.create_future()
        self.transport.write(bytes(_REQUEST))
        return self._answered

    def data_received(self, data: bytes) -> None:
        self._answered.set_result(None)


class _Answering(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._transport.write(bytes(_ANSWER))


def _echo(path: Path, ready: object) -> None:
    async def serve() -> None:
        await asyncio.get_running_loop().create_unix_server(_Answering, path)
        ready.send("ready")  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    uvloop.run(serve())


async def _measured(pid: int, once: Callable[[], Awaitable[None]], count: int, callers: int) -> Sample:
    """So many calls of each caller; the seconds are those that this process and the other had a processor."""

    async def caller() -> None:
        for _ in range(count):
            await once()

    before = _processor(os.getpid()) + _processor(pid)
    await asyncio.gather(*(caller() for _ in range(callers)))
    return Sample(count * callers, _processor(os.getpid()) + _processor(pid) - before)


def _processor(pid: int) -> float:
    """Seconds that every thread of a process has run: the scheduler's own count, in nanoseconds."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
