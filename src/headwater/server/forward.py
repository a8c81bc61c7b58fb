"""Forwards requests to the worker that owns the part or the job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from starlette.types import Receive, Scope, Send

from headwater import parts
from headwater.client.http_pool import HttpPool
from headwater.client.http_protocol import ConnectionEnded, Exchange, HttpProtocol
from headwater.core.errors import HeadwaterError, OutcomeUnknown, Unavailable
from headwater.server.app import App
from headwater.server.call import ClientGone, read_body
from headwater.server.caller import FORWARDED, origin_of
from headwater.server.route import Route, Router

_HOP = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect", b"content-length", FORWARDED}
)
_EVENTS = b"text/event-stream"
ROOM = 1024  # bytes that a forwarded head may have more than the client's


class Forwarding:
    """An application that answers a request or forwards it to the owner. What can be refused before its body is read is refused here; the
    owner checks all of it again.

    An answer may take as long as the owner needs, as it would without forwarding: when the owner dies, its connections end.
    """

    def __init__(self, app: App, routes: Iterable[Route], *, owner: Path, max_body: int) -> None:
        self._app, self._router, self._max_body = app, Router(routes), max_body
        self._owned = {part.name for part in parts.PARTS if part.owned}
        self._pool = HttpPool("owner", 0, unix=owner, only_unix=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._belongs(scope) or not self._app.admits(scope, receive):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        try:
            await self._forward(scope, receive, send)
        except HeadwaterError as error:
            await self._app.refuse(error, scope, receive, send, began=began)

    def close(self) -> None:
        self._pool.close()

    def _belongs(self, scope: Scope) -> bool:
        """Whether the owner answers: for parts that run there, and for every job, because jobs stay where they started."""
        if any(name == b"prefer" and b"respond-async" in value.lower() for name, value in scope["headers"]):
            return True
        match = self._router.find(scope["raw_path"].partition(b"?")[0])
        if match is None:
            return False
        routes = match.address.routes(scope["method"])
        return any(
            route.operation.part in self._owned or route.operation.kind == "job" or route.operation.path.startswith("/jobs/")
            for route in routes
        )

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(scope, receive, self._max_body)
        except ClientGone:
            return
        target = scope["raw_path"].partition(b"?")[0] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        lines = [b"%b: %b\r\n" % pair for pair in scope["headers"] if pair[0] not in _HOP and not _follows(scope, *pair)]
        lines.append(b"%b: %b\r\n" % (FORWARDED, origin_of(scope).encode("latin-1", "replace")))
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        head = b"%b %b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n" % (method.encode(), target, b"".join(lines), len(body))
        protocol = await self._connected()
        exchange = Exchange(asyncio.get_running_loop(), patience=None, streamed=True)
        gone = asyncio.create_task(_disconnected(receive))
        gone.add_done_callback(lambda task: None if task.cancelled() else protocol.leave(exchange))
        begun = False
        try:
            rest = protocol.send(head, body, exchange)
            if rest is not None:
                await rest
            assert exchange.headed is not None
            await exchange.headed
            headers = [pair for pair in exchange.headers if pair[0] not in (b"connection", b"transfer-encoding", b"date")]
            begun = True
            await send({"type": "http.response.start", "status": exchange.status, "headers": headers})
            while (chunk := await protocol.chunk(exchange)) is not None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except ConnectionEnded as error:
            if gone.done() or begun:  # an answer that has begun and is not ended is cut: the client is told that it is incomplete
                return
            if method == "GET":
                raise _away() from error
            raise OutcomeUnknown(
                "The worker that does this ended before it answered; it may have been done or not.",
                hint="Read what is there before sending it again.",
            ) from error
        finally:
            gone.cancel()
            protocol.leave(exchange)
            await asyncio.gather(gone, return_exceptions=True)

    async def _connected(self) -> HttpProtocol:
        try:
            return self._pool.ready(hot=False) or await self._pool.connect(hot=False)
        except (OSError, TimeoutError):
            raise _away() from None


def _away() -> Unavailable:
    return Unavailable("The worker that does this is being started.", hint="Ask again in a moment.")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _follows(scope: Scope, name: bytes, value: bytes) -> bool:
    """Whether a header asks for events, without their body: the owner is sent a GET, and events never end."""
    return name == b"accept" and scope["method"] == "HEAD" and _EVENTS in value.lower()
