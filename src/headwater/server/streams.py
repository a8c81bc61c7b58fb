"""All streams of a server: limits their number, their memory, and how many read at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Literal

from starlette.types import Scope, Send

from headwater.core.errors import Busy
from headwater.core.metrics import HttpMetrics
from headwater.server.connection import CONNECTION, Connection
from headwater.server.connections import STUCK

Ending = Literal["whole", "left", "error"]
PIECE = 64 << 10  # bytes sent at once: what the client has not read waits in memory
_TURNS = 2  # streams that read and encode at the same time
_WAIT = 0.25  # seconds between two checks for stuck clients


class Stream:
    """One open stream, and how much of it waits in memory for its client."""

    def __init__(self, streams: Streams, connection: Connection | None) -> None:
        self._streams, self._connection = streams, connection
        self.held = 0
        self.since = 0.0  # when the first byte of what is held began to wait
        self.ending: Ending = "left"

    async def send(self, send: Send, chunk: bytes) -> None:
        """Send in pieces, each after the client has read the one before."""
        try:
            for at in range(0, len(chunk), PIECE):
                self._streams.holds(self, len(chunk) - at)
                await send({"type": "http.response.body", "body": chunk[at : at + PIECE], "more_body": True})
                if len(chunk) > PIECE:
                    await asyncio.sleep(0)  # yield to other tasks: a fast reader never makes this wait
        finally:
            self._streams.holds(self, 0)

    def cut(self) -> None:
        self._streams.holds(self, 0)
        if self._connection is not None:
            self._connection.cut("memory")


class Streams:
    """Every open stream. A stream takes a `turn` to read and encode, so that other requests wait for few streams at a time."""

    def __init__(self, *, most: int, memory: int, metrics: HttpMetrics, now: Callable[[], float]) -> None:
        self._most, self._memory, self._metrics, self._now = most, memory, metrics, now
        self._open: set[Stream] = set()
        self._held = 0
        self._turns = asyncio.Semaphore(_TURNS)
        self._freed = asyncio.Event()

    @contextmanager
    def open(self, scope: Scope) -> Iterator[Stream]:
        """Open a stream. Errors: `Busy` at the limit."""
        if len(self._open) >= self._most:
            self._metrics.streams_refused.add()
            raise Busy(
                f"The server has {self._most} streams, as many as it may have.",
                hint="Come again in a few seconds, or read pages; whoever runs the server can raise `server.max_streams`.",
            )
        stream = Stream(self, scope.get("state", {}).get(CONNECTION))
        self._open.add(stream)
        self._metrics.streams = len(self._open)
        try:
            yield stream
        except Exception:
            stream.ending = "error"
            raise
        finally:
            self._open.discard(stream)
            self._metrics.streams = len(self._open)
            self._metrics.stream_ended(stream.ending)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The right to read and encode the next batch of a stream. Waits while clients leave too many bytes unread in memory."""
        async with self._turns:
            while self._held >= self._memory:
                await self._make_room()
            yield
            await asyncio.sleep(0)  # while holding the turn: otherwise a thousand streams that wake at once would run without a pause

    def holds(self, stream: Stream, size: int) -> None:
        """Record how many bytes of a stream wait in memory."""
        if size > stream.held:
            stream.since = self._now()
        elif size < stream.held:
            self._freed.set()
        self._held += size - stream.held
        stream.held = size

    async def _make_room(self) -> None:
        """Cut off the stream with the slowest client, if it is stuck; otherwise wait until a client has read something."""
        slowest = min((stream for stream in self._open if stream.held), key=lambda stream: stream.since)
        if self._now() - slowest.since > STUCK:
            slowest.cut()
            return
        self._freed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_WAIT):
                await self._freed.wait()
