"""Passes a request on to another process, and its answer back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from headwater.client.http_pool import HttpPool
from headwater.client.http_protocol import AnswerLate, ConnectionEnded, Exchange, HttpProtocol
from headwater.core.errors import OutcomeUnknown, Unavailable
from headwater.server.call import ClientGone, read_body
from headwater.server.caller import FORWARDED, origin_of

Headers = Sequence[tuple[bytes, bytes]]
_CONNECTION = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect", b"content-length"})
_EVENTS = b"text/event-stream"
ROOM = 1024  # bytes that a head that was passed on may have more than the client's


async def pass_on(
    pool: HttpPool,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    max_body: int,
    host: bytes = b"",
    asking: Headers = (),
    answering: Headers = (),
    patience: float | None = None,
) -> None:
    """Send a request to another server as it came, and its answer to the client, with some headers more. `host`: of the other server, where
    it is not this one's.

    `patience`: seconds without a byte of the answer; None: an answer may take as long as the other one needs, as where this machine looks
    after it: when it dies, its connections end. Errors: `Unavailable` where it is away, and nothing was sent; `OutcomeUnknown` where it
    ends before it answers a change, or answers too late; those of `read_body`.
    """
    try:
        body = await read_body(scope, receive, max_body)
    except ClientGone:
        return
    target = scope["raw_path"].partition(b"?")[0] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    dropped = {FORWARDED, *(name for name, _ in asking), *((b"host",) if host else ())}
    lines = [
        b"%b: %b\r\n" % pair for pair in scope["headers"] if pair[0] not in _CONNECTION | dropped and not _asks_for_events(scope, *pair)
    ]
    lines += [b"%b: %b\r\n" % pair for pair in asking]
    if host:
        lines.append(b"host: %b\r\n" % host)
    else:
        lines.append(b"%b: %b\r\n" % (FORWARDED, origin_of(scope).encode("latin-1", "replace")))
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    head = b"%b %b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n" % (method.encode(), target, b"".join(lines), len(body))
    protocol = await _connected(pool)
    exchange = Exchange(asyncio.get_running_loop(), patience=patience, streamed=True)
    disconnect = asyncio.create_task(_disconnected(receive))
    disconnect.add_done_callback(lambda task: None if task.cancelled() else protocol.leave(exchange))
    begun = False
    try:
        rest = protocol.send(head, body, exchange)
        if rest is not None:
            await rest
        assert exchange.headed is not None
        await exchange.headed
        headers = [pair for pair in exchange.headers if pair[0] not in (b"connection", b"transfer-encoding", b"date")] + list(answering)
        begun = True
        await send({"type": "http.response.start", "status": exchange.status, "headers": headers})
        while (chunk := await protocol.chunk(exchange)) is not None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except ConnectionEnded as error:
        if disconnect.done() or begun:  # an answer that has begun and is not ended is cut: the client is told that it is incomplete
            return
        if method == "GET":
            raise _away() from error
        says = f"has not answered for {patience:g} s" if isinstance(error, AnswerLate) else "ended before it answered"
        raise OutcomeUnknown(
            f"The process that does this {says}; it may have been done or not.",
            hint="Read what is there before sending it again.",
        ) from error
    finally:
        disconnect.cancel()
        protocol.leave(exchange)
        await asyncio.gather(disconnect, return_exceptions=True)


async def _connected(pool: HttpPool) -> HttpProtocol:
    try:
        return pool.ready(hot=False) or await pool.connect(hot=False)
    except (OSError, TimeoutError):
        raise _away() from None


def _away() -> Unavailable:
    return Unavailable("The process that does this is being started.", hint="Ask again in a moment.")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _asks_for_events(scope: Scope, name: bytes, value: bytes) -> bool:
    """Whether a header asks for events, without their body: the other server is sent a GET, and events never end."""
    return name == b"accept" and scope["method"] == "HEAD" and _EVENTS in value.lower()
