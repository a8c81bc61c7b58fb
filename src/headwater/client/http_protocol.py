"""One connection to a server: requests go out in order, their answers come back in the same order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_PIECE = 256 << 10  # bytes of a body given to the system at once: unsent bytes stay in memory
_HEAD = 64 << 10  # bytes of an answer's head: a server of ours sends a few hundred
_UNREAD = 1 << 20  # bytes of a stream that wait for its reader before reading from the server pauses
_WHOLE = 1 << 30  # the most bytes of an answer that is not streamed


class ConnectionEnded(Exception):
    """The connection ended before the answer was whole."""


class AnswerLate(ConnectionEnded):
    """No byte of the answer came within the caller's timeout."""


class AnswerMalformed(ConnectionEnded):
    """The bytes are no HTTP/1.1 answer, or answer no request."""


class Exchange:
    """One request and its answer. `streamed`: the caller reads the body in chunks, and a slow caller slows the server down."""

    __slots__ = ("body", "chunks", "deadline", "done", "framed", "headed", "headers", "patience", "status", "streamed", "unread")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, patience: float | None, streamed: bool = False) -> None:
        self.patience, self.streamed = patience, streamed
        self.deadline = None if patience is None else loop.time() + patience
        self.headed: asyncio.Future[None] | None = loop.create_future() if streamed else None
        self.done: asyncio.Future[None] = loop.create_future()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.framed = False  # whether the head says where the body ends
        self.body: bytes | list[bytes] = b""
        self.chunks: deque[bytes] = deque()
        self.unread = 0

    def fail(self, error: ConnectionEnded) -> None:
        for future in (self.headed, self.done):
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # mark the exception as retrieved: a caller may wait for only one of the two futures

    def whole(self) -> bytes:
        """The body of an answer that has come whole."""
        return self.body if isinstance(self.body, bytes) else b"".join(self.body)


class HttpProtocol(asyncio.Protocol):
    """A connection. Several requests may be under way; the pool decides which may share a connection.

    When the connection ends, every exchange under way fails with `ConnectionEnded`: the server may have done it or not.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, idle: Callable[[HttpProtocol], None], *, ours: bool = False) -> None:
        """Calls `idle` when the last answer under way has come and the connection is reusable.

        `ours`: the connection leads to a headwater server, with no proxy between.
        """
        self._loop, self._idle, self.ours = loop, idle, ours
        self._parser = httptools.HttpResponseParser(self)
        self.waiting: deque[Exchange] = deque()
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.over = False
        self.idle_since = 0.0
        self._head = 0
        self._unparsed = 0  # bytes since the parser last completed something
        self.paused = False
        self._room: asyncio.Future[None] | None = None  # for the writer of a large body
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._reading = True
        self._sending = False  # a body is not sent whole

    # -- requests ---------------------------------------------------------------------------------------------

    def send(self, head: bytes, body: bytes, exchange: Exchange) -> Awaitable[None] | None:
        """Send a request. The caller awaits what this returns, if anything: the rest of a large body."""
        self.waiting.append(exchange)
        if exchange.deadline is not None and (self._timer is None or exchange.deadline < self._timer_at):
            self._watch(exchange.deadline)
        if len(body) <= _PIECE:
            self.transport.write(head + body)
            return None
        return self._send_all(head, body, exchange)

    async def _send_all(self, head: bytes, body: bytes, exchange: Exchange) -> None:
        self._sending = True
        self.transport.write(head)
        for at in range(0, len(body), _PIECE):
            while self.paused and not self.over:
                self._room = self._room or self._loop.create_future()
                await self._room
            if self.over or self.transport.is_closing():  # also if the answer came before the request was sent whole
                return
            self.transport.write(body[at : at + _PIECE])
            self._heard(exchange)
        self._sending = False

    def leave(self, exchange: Exchange) -> None:
        """The caller no longer waits for this answer. Close the connection, unless later requests wait on it."""
        if self.over or exchange not in self.waiting:
            return
        if len(self.waiting) == 1 or exchange.streamed:
            self.end(ConnectionEnded("The request was given up."))

    def end(self, error: ConnectionEnded) -> None:
        """Close the connection at once; all waiting callers get the error."""
        if self.over:
            return
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
        self._released()
        waiting, self.waiting = self.waiting, deque()
        for exchange in waiting:
            exchange.fail(error)
        if self.transport is not None:
            self.transport.abort()

    async def chunk(self, exchange: Exchange) -> bytes | None:
        """The next bytes of a streamed answer; None at its end. Errors: `ConnectionEnded`."""
        while not exchange.chunks:
            if exchange.done.done():
                exchange.done.result()
                return None
            exchange.headed = self._loop.create_future()
            await exchange.headed
        chunk = exchange.chunks.popleft()
        exchange.unread -= len(chunk)
        if not self._reading and exchange.unread < _UNREAD // 2 and not self.over:
            self._reading = True
            self.transport.resume_reading()
        return chunk

    # -- the transport's callbacks ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclasses

    def data_received(self, data: bytes) -> None:
        if not self.waiting:
            self.end(AnswerMalformed("something was sent that nobody asked for"))
            return
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.end(AnswerMalformed("another protocol was offered"))
        except httptools.HttpParserError as error:
            self.end(AnswerMalformed(f"no HTTP: {error}"))
        if self._unparsed > _HEAD:  # the parser reports nothing during an endless header
            self.end(AnswerMalformed("the head of the answer is too large"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        first = self.waiting[0] if self.waiting else None
        if exc is None and not self.over and first is not None and first.status >= 200 and not first.framed:
            self.on_message_complete()  # an answer that ends with its connection
        self.end(ConnectionEnded(str(exc or "the connection was closed")))

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._released()

    # -- the parser's callbacks -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if not self.waiting:  # behind the last answer, in the same bytes: half of one would be ended by the answer to the next request
            self.end(AnswerMalformed("something was sent that nobody asked for"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value)
        if self._head > _HEAD:
            self.end(AnswerMalformed("the head of the answer is too large"))
        elif self.waiting:
            self.waiting[0].headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._head = self._unparsed = 0
        if not self.waiting:
            return
        exchange = self.waiting[0]
        exchange.status = self._parser.get_status_code()
        if exchange.status < 200:
            exchange.headers.clear()  # an interim answer
            return
        exchange.framed = any(name in (b"content-length", b"transfer-encoding") for name, _ in exchange.headers)
        self._wake(exchange)

    def on_body(self, body: bytes) -> None:
        if not self.waiting:
            return
        self._unparsed = 0
        exchange = self.waiting[0]
        exchange.unread += len(body)
        self._heard(exchange)
        if exchange.streamed:
            exchange.chunks.append(body)
            self._wake(exchange)
            if exchange.unread > _UNREAD and self._reading and not self.over:
                self._reading = False
                self.transport.pause_reading()
        elif exchange.unread > _WHOLE:
            self.end(AnswerMalformed("the answer is larger than any that is asked for"))
        elif not exchange.body:
            exchange.body = body
        elif isinstance(exchange.body, bytes):
            exchange.body = [exchange.body, body]
        else:
            exchange.body.append(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        if not self.waiting or self.waiting[0].status < 200:
            return
        exchange = self.waiting.popleft()
        if not exchange.done.done():
            exchange.done.set_result(None)
        self._wake(exchange)
        if not self._reading and not self.over:  # its reader has all of it now; the next answer belongs to another request
            self._reading = True
            self.transport.resume_reading()
        endless = not exchange.framed and exchange.status not in (204, 304)
        if endless or self._sending or not self._parser.should_keep_alive():
            self.end(ConnectionEnded("the server ended the connection behind the answer to an earlier request"))
        elif not self.waiting:
            self.idle_since = self._loop.time()
            self._idle(self)

    # -- waiting ----------------------------------------------------------------------------------------------

    def _wake(self, exchange: Exchange) -> None:
        if exchange.headed is not None and not exchange.headed.done():
            exchange.headed.set_result(None)

    def _released(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _heard(self, exchange: Exchange) -> None:
        if exchange.patience is not None:
            exchange.deadline = self._loop.time() + exchange.patience

    def _watch(self, deadline: float) -> None:
        """One timer for all: set and cancelled for each request, it would cost more than the request."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        deadlines = [exchange.deadline for exchange in self.waiting if exchange.deadline is not None]
        if not self._reading:  # the reader is slow, not the server
            self._watch(now + 1.0)
        elif any(deadline <= now for deadline in deadlines):
            self.end(AnswerLate("no answer came in time"))
        elif deadlines:
            self._watch(min(deadlines))
