"""Streaming answers: server-sent events and NDJSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.types import Receive, Scope, Send

from headwater.core.errors import HeadwaterError
from headwater.core.ids import Ids
from headwater.server.hints import http_problem
from headwater.server.streams import Stream, Streams
from headwater.wire.problems import encoded

PING = 15.0  # seconds: below the minute after which many proxies give a silent connection up
_EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]


class EventStream:
    """Sends chunks of events until they end, the client leaves, or the server stops. The answer then ends cleanly, and clients reconnect.

    Sends `: ping` after `ping` seconds without an event. An error of the source becomes an `error` event whose data is the problem.
    `finite`: the events have an end that clients count on. A server that stops before it cuts the connection, as a `LineStream` would.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes],
        *,
        streams: Streams,
        stop: asyncio.Event,
        ids: Ids,
        ping: float = PING,
        finite: bool = False,
    ) -> None:
        self._chunks, self._streams, self._stop, self._ids, self._ping = chunks, streams, stop, ids, ping
        self._finite = finite

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.open(scope) as stream:
            await self._run(stream, receive, send)

    async def _run(self, stream: Stream, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        sent = asyncio.create_task(self._send_all(stream, send))
        stopped = asyncio.create_task(self._stop.wait())
        disconnect = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({sent, stopped, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            left = disconnect.done()
        finally:
            for task in (sent, stopped, disconnect):
                task.cancel()
            # Close the generator and finish the answer only after the sender has really ended.
            outcome, _, _ = await asyncio.gather(sent, stopped, disconnect, return_exceptions=True)
            await self._chunks.aclose()
        if isinstance(outcome, Exception):
            raise outcome  # a fault: the app reports it, and the connection ends before the answer does
        cut = self._finite and isinstance(outcome, asyncio.CancelledError)
        if not left and not cut:
            stream.ending = "error" if stream.ending == "error" else "whole"
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, stream: Stream, send: Send) -> None:
        await stream.send(send, b"retry: 1000\n\n")
        upcoming: asyncio.Task[bytes | None] | None = None
        try:
            while True:
                upcoming = upcoming or asyncio.create_task(self._next())
                done, _ = await asyncio.wait({upcoming}, timeout=self._ping)
                if done:
                    chunk, upcoming = upcoming.result(), None
                    if chunk is None:
                        return
                    await stream.send(send, chunk)
                    del chunk  # drop the reference: this chunk is large, and the next may take long
                else:
                    await stream.send(send, b": ping\n\n")
        except HeadwaterError as error:
            stream.ending = "error"
            await stream.send(send, b"event: error\ndata: " + encoded(http_problem(error, self._ids())) + b"\n\n")
        finally:
            if upcoming is not None:
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)

    async def _next(self) -> bytes | None:
        return await anext(self._chunks, None)


class LineStream:
    """Sends chunks of lines until they end. An error cuts the connection, which tells the client that the rest is missing."""

    def __init__(self, chunks: AsyncGenerator[bytes], *, streams: Streams) -> None:
        self._chunks, self._streams = chunks, streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.open(scope) as stream:
            disconnect = asyncio.create_task(_disconnected(receive))
            try:
                await self._run(stream, send, disconnect, whole=scope["method"] != "HEAD")
            finally:
                disconnect.cancel()
                await asyncio.gather(disconnect, return_exceptions=True)
                await self._chunks.aclose()

    async def _run(self, stream: Stream, send: Send, disconnect: asyncio.Task[None], *, whole: bool) -> None:
        chunk = await anext(self._chunks, b"")  # before the status is sent: errors of the request become a problem
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/x-ndjson")]})
        while chunk and whole and not disconnect.done():
            await stream.send(send, chunk)
            chunk = await anext(self._chunks, b"")
        if not disconnect.done():
            stream.ending = "whole"
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
