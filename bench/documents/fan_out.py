"""A process that syncs some bytes and writes them to every connection that waits, and does nothing else: what no feed can beat."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nretry: 1000\n\n"
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class FanOut:
    """GET on a connection makes it wait for events; PUT sends one to all that wait."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    @classmethod
    @contextmanager
    def started(cls, folder: Path, event: bytes) -> Iterator[FanOut]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, folder / "fan-out", event), daemon=True)
        process.start()
        theirs.close()  # so that the end of the process ends the wait
        try:
            yield cls(f"http://127.0.0.1:{ours.recv()}", process.pid or 0)
        finally:
            process.kill()
            process.join()


class _Waiting(asyncio.Protocol):
    def __init__(self, waiting: set[asyncio.Transport], file: int, event: bytes) -> None:
        self._waiting, self._file, self._event = waiting, file, event

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET"):
            self._waiting.add(self._transport)
            self._transport.write(HEAD)
            return
        os.write(self._file, self._event)
        os.fdatasync(self._file)
        for transport in self._waiting:
            transport.write(self._event)
        self._transport.write(_ANSWER)

    def connection_lost(self, error: Exception | None) -> None:
        self._waiting.discard(self._transport)


def _serve(ready: Connection, path: Path, event: bytes) -> None:
    import uvloop

    async def serve() -> None:
        waiting: set[asyncio.Transport] = set()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        server = await asyncio.get_running_loop().create_server(lambda: _Waiting(waiting, file, event), "127.0.0.1", 0, backlog=2048)
        ready.send(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    uvloop.run(serve())
