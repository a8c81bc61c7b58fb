"""Small calls through a server: the processor time of both processes beside that of a bare echo over the same kind of socket.

The floor is an echo of two processes: a client on asyncio's own loop and a server on uvloop, as ours are, each a protocol without streams,
which send as many bytes as an append of one record and its answer have. Both sides are warmed by a hundred calls in each round, and their
rounds alternate. A process that wakes another on a sleeping core pays for it, on a virtual machine several times the echo itself, and the
scheduler chooses the cores anew in each round: so the client stays on one core and both servers on another, or all on one where that is
said, and both sides have the same wake-ups.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import uvloop

import headwater
from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.place import TOPIC, Place, records
from bench.sizes import Sizes
from headwater.client.log import AsyncLog
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.core.unix_socket import connect_unix
from headwater.server.spawned import SpawnedServer

_MEMORY = Path("/dev/shm")  # a disk whose sync costs nothing: what is left is our own
_MARK = mark.both(mark.time(300e-6, "≤ 0.3 ms"), mark.ratio(0.25))
_REQUEST, _ANSWER = 372, 131  # bytes of an append of one over the Unix socket, and of its answer
_CALLERS = (1, 64)
_WARM = 100  # calls before each round
_ROUNDS = 41  # short ones: both sides see the same moods of the machine
_READ = 3  # records of a small read

Call = Callable[[AsyncLog], Awaitable[object]]


def remote(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Over the Unix socket and over the port. Seconds are those that client and server had a processor, taken together.

    The mark is for one caller over the Unix socket on a disk in memory: a sync's own cost is not ours. The same on the real disk stands
    beside it.
    """
    calls = max(1, sizes.callers // 40)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=_MEMORY) as memory, place.sub("remote") as folder:
        for where, data in (("memory", Path(memory)), ("disk", folder)):
            with SpawnedServer(data / "data") as server, _Echo.started() as echo:

                def case(name: str, ours: Callable[[], Sample], callers: int, *, marked: bool = False, one_core: bool = False) -> Case:
                    floor = partial(echo.round, _pinned(echo.pid, one_core=one_core), calls, callers)
                    return Case(
                        f"remote {name}",
                        "call",
                        Side("ours", ours),
                        Side("bare echo", floor),
                        _MARK if marked else None,
                        "time",
                        min(sizes.turns, _ROUNDS),
                    )

                unix = _Client(server, server.data / "server.sock")
                for way, client in (("unix", unix), ("port", _Client(server, None))):
                    for callers in _CALLERS:
                        marked = (where, way, callers) == ("memory", "unix", 1)
                        yield case(
                            f"append, {where}, {way}, {callers}", partial(client.round, calls, _append, callers), callers, marked=marked
                        )
                if where == "memory":
                    one_core = partial(unix.round, calls, _append, 1, one_core=True)
                    yield case("append, memory, unix, 1, on one core", one_core, 1, one_core=True)
                    yield case("append, memory, unix, 1, blocking", partial(unix.blocking, calls), 1)
                    for name, call in (("read of a few", _read), ("bounds", _bounds)):
                        yield case(f"{name}, memory, unix, 1", partial(unix.round, calls, call, 1), 1)


_ONE = records(1)


async def _append(log: AsyncLog) -> None:
    await log.append(TOPIC, 0, _ONE)


async def _read(log: AsyncLog) -> None:
    await log.read(TOPIC, 0, 0, limit=_READ)


async def _bounds(log: AsyncLog) -> None:
    await log.bounds(TOPIC, 0)


class _Pinned:
    """While it is held, this process stays on one core and the process `pid` on another, or on the same; then both are free again."""

    def __init__(self, pid: int, cores: set[int], own: int, theirs: int) -> None:
        self.pid, self._cores, self._own, self._theirs = pid, cores, own, theirs

    def __enter__(self) -> None:
        self._pin(os.getpid(), {self._own})
        self._pin(self.pid, {self._theirs})

    def __exit__(self, *_: object) -> None:
        self._pin(os.getpid(), self._cores)
        self._pin(self.pid, self._cores)

    @staticmethod
    def _pin(pid: int, cores: set[int]) -> None:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):  # a thread that has just ended
                os.sched_setaffinity(int(task.name), cores)


def _pinned(pid: int, *, one_core: bool) -> _Pinned:
    cores = sorted(os.sched_getaffinity(0))
    return _Pinned(pid, set(cores), cores[0], cores[0] if one_core else cores[-1])


class _Client:
    """Calls one thing at a time through the door's log, on the loop that programs use by default."""

    def __init__(self, server: SpawnedServer, unix: Path | None) -> None:
        self._server, self._unix = server, unix

    def round(self, count: int, call: Call, callers: int, *, one_core: bool = False) -> Sample:
        with _pinned(self._server.pid, one_core=one_core):
            return asyncio.run(self._calls(max(1, count // callers), call, callers))

    async def _calls(self, count: int, call: Call, callers: int) -> Sample:
        log = remote_log(self._server.url, token=None, clock=SystemClock(), unix=self._unix)
        await log.create_topic(TOPIC)
        for _ in range(_READ):
            await _append(log)
        sample = await _measured(self._server.pid, lambda: call(log), count, callers)
        await log.aclose()
        return sample

    def blocking(self, count: int) -> Sample:
        """Appends through the blocking door, which finds the Unix socket by the directory."""
        pinned = _pinned(self._server.pid, one_core=False)
        with pinned, headwater.open_blocking(self._server.data) as hw:
            hw.log.create_topic(TOPIC)
            for _ in range(_WARM):
                hw.log.append(TOPIC, 0, _ONE)
            before = _processor(os.getpid(), self._server.pid)
            for _ in range(count):
                hw.log.append(TOPIC, 0, _ONE)
            return Sample(count, _processor(os.getpid(), self._server.pid) - before)


class _Echo:
    """A process that answers so many bytes for so many, over a Unix socket, on the loop that the server runs on."""

    def __init__(self, path: Path, pid: int) -> None:
        self._path, self.pid = path, pid

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

    def round(self, pinned: _Pinned, count: int, callers: int) -> Sample:
        with pinned:
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

        sample = await _measured(self.pid, once, count, callers)
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


async def _measured(pid: int, once: Callable[[], Awaitable[object]], count: int, callers: int) -> Sample:
    """So many calls of each caller; the seconds are those that this process and the other had a processor."""

    async def caller(count: int) -> None:
        for _ in range(count):
            await once()

    await asyncio.gather(*(caller(_WARM // callers + 1) for _ in range(callers)))
    before = _processor(os.getpid(), pid)
    await asyncio.gather(*(caller(count) for _ in range(callers)))
    return Sample(count * callers, _processor(os.getpid(), pid) - before)


def _processor(*pids: int) -> float:
    """Seconds that every thread of these processes has run: the scheduler's own count, in nanoseconds."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
