"""One connection, with limits on the size of a head, the time for a head or a body, and pipelining. uvicorn's own has none of them."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from headwater.core.errors import BadInput, BadMethod, Busy, HeadTooLarge, HeadwaterError, TooSlow
from headwater.core.ids import Ids
from headwater.core.units import Size
from headwater.server.connections import Connections, Reason
from headwater.server.hot_queue import HotQueue
from headwater.server.problem import problem_answer

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from headwater.server.hot import HotPath

CONNECTION = "headwater.connection"  # the key of the connection in a request's scope, below "state"
_METHOD = re.compile(rb"[A-Za-z-]{1,32} /")
_LINGER = 1.0  # seconds in which a refused client may still send: closing at once would reset the connection and lose the answer
_PIPELINED = 100  # requests that may wait for the answer to the one before
_FRAMING = (b"content-length", b"transfer-encoding")  # the headers that say where a body ends
_HEADER = 32  # bytes that a header counts beside its text: thousands of tiny headers take memory, too


# What the client is sending. IDLE: nothing, because it waits for an answer or has no more requests.
_IDLE, _HEAD, _BODY = range(3)


class Connection(HttpToolsProtocol):
    """When the client exceeds a limit, answers 431, 408 or 503 if an answer is still possible, and closes."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
        ids: Ids,
        hot: HotPath | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all, self._limits, self._ids = connections, connections.limits, ids
        self._largest_head = connections.limits.header
        self._phase = _HEAD
        self._since = self.loop.time()  # when the phase began
        self._head = 0  # the size of the head so far, as it is parsed
        self._unparsed = 0  # bytes received since the parser last completed something
        self._body = 0
        self._framing: bytes | None = None  # the framing of the body behind a head that asks for another protocol
        self._reframing = False  # while the parser reads that framing once more
        self._answering: RequestResponseCycle | None = None
        self._over = False
        self.unsent = 0
        self._took = False  # whether the client has read enough since the last look for more to be written
        self._blocked_since: float | None = None
        self._hot = None if hot is None else HotQueue(hot, self)
        self._chunk = b""  # received between two requests: the next request is at its front

    # -- the connection ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else None
        reason = self._all.opened(self, address)
        # Over TLS it is still counted as a handshake, too: it must not exceed the limit by itself.
        if reason is not None and self.scheme != "https":
            busy = Busy("The server has as many connections as it may have.", hint="Ask again in a few seconds.")
            self._refuse(reason, None if self._all.crowded(address) else busy)

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._all.closed(self, self.client[0] if self.client else None)
        self._forsake()
        if self._hot is not None:
            self._hot.forsake()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._unset_keepalive_if_required()
        if self._phase == _IDLE:
            if self._hot is not None and (length := self._hot.repeats(data)):
                data = data[length:]
                if not data:
                    return
            # Not only in `on_message_begin`: empty lines before a request would keep the connection open for ever.
            self._begin(_HEAD)
            self._chunk = data
        self._unparsed += len(data)
        self._parse(data)
        if self._unparsed > self._largest_head:
            self._refuse_head()

    def _parse(self, data: bytes) -> None:
        """Parse every request in the data. A request for a protocol upgrade is answered like any other."""
        while not self._over:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as end:
                # The parser ends such a request after its head. It would drop the body, or read it as the next request.
                data = data[end.args[0] :]
                self._parse_body_again()
            except httptools.HttpParserInvalidMethodError:
                if _METHOD.match(data) is None:  # another protocol, such as TLS
                    self.send_400_response("")
                else:
                    self._refuse("malformed", BadMethod("HTTP has no such method.", hint="Use GET, HEAD, POST, PUT or DELETE."))
            except httptools.HttpParserError:
                self.send_400_response("")

    def _parse_body_again(self) -> None:
        framing, self._framing = self._framing, None
        if framing is None:
            return
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self._reframing = True
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % framing)
        except httptools.HttpParserError:  # a body without a length
            self.send_400_response("")
        finally:
            self._reframing = False

    # -- the parser's callbacks -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._reframing:
            return
        if self._phase == _IDLE:
            self._begin(_HEAD)
        self._unparsed = max(1, self._unparsed)
        super().on_message_begin()
        self.scope["state"][CONNECTION] = self

    def on_url(self, url: bytes) -> None:
        if self._reframing:
            return
        self._head += len(url)
        if self._head <= self._largest_head:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reframing:
            return
        self._head = head = self._head + len(name) + len(value) + _HEADER
        # Drop trailers after the body: among the headers they would look like checked ones.
        if self._phase == _HEAD and head <= self._largest_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._over or self._reframing:
            return
        if self._head > self._largest_head:
            self._refuse_head()
            return
        if len(self.pipeline) >= _PIPELINED:
            self.cut("pipelined")
            return
        chunk, self._chunk = self._chunk, b""
        if self._hot is not None and self._hot.takes(chunk):
            self._begin(_BODY)
            return
        super().on_headers_complete()
        self._begin(_BODY)
        if self.parser.should_upgrade():
            framing = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] in _FRAMING]
            self._framing = b"".join(framing) if framing else None

    def on_body(self, body: bytes) -> None:
        if not self._over:
            self._unparsed = 0
            self._body += len(body)
            if self._hot is not None and self._hot.collecting:
                self._hot.collect(body)
            else:
                super().on_body(body)

    def on_message_complete(self) -> None:
        if self._over or self._framing is not None:
            return
        self._phase, self._unparsed = _IDLE, 0
        if self._hot is not None and self._hot.collecting:
            body = self._hot.begin()
            if body is None:
                return
            super().on_headers_complete()  # the application handles it after all
            if body:
                super().on_body(body)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse("malformed", BadInput("This is no HTTP request that can be read.", hint="Send HTTP/1.1, percent-encoded as UTF-8."))

    def resume_writing(self) -> None:
        self._took = True
        super().resume_writing()

    # -- limits of time ---------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """End a request whose head or body takes too long. The time of the previous answer does not count."""
        if self._over or self._phase == _IDLE:
            if not self._over and self._hot is not None and self._hot.idle(now):
                self.transport.close()
            return
        if (
            self.flow.read_paused
            or self.pipeline
            or self._hot_pending
            or (self._phase == _HEAD and self.cycle and not self.cycle.response_complete)
        ):
            self._since = now
        elif self._phase == _HEAD:
            if now - self._since > self._limits.header_seconds:
                self._refuse(
                    "header-time",
                    TooSlow(f"The request's head took longer than {self._limits.header_seconds:g} s.", hint="Send it at once.")
                    if self._unparsed
                    else None,  # no request has begun: the client would take an answer for that of its next request
                )
        elif now - self._since > self._limits.body_seconds + self._body / self._limits.body_rate:
            self._refuse(
                "body-time",
                TooSlow(
                    f"The request's body came too slowly: {self._body} bytes in {now - self._since:.0f} s.",
                    hint="Send it at once, or ask whoever runs the server for a lower `server.min_rate`.",
                ),
            )

    def look_at_unsent(self, now: float) -> float | None:
        """Since when the client has read nothing of its unsent bytes; None when there are none.

        Over TLS the close of the connection counts, too: it waits for the client's answer, which a client with a connection pool may never
        send.
        """
        closing = self.transport.is_closing()
        unsent = 0 if closing and self._over else self.transport.get_write_buffer_size()
        if unsent == 0 and (self._over or not closing):
            self._blocked_since = None
        elif self._blocked_since is None or unsent < self.unsent or self._took:
            self._blocked_since = now
        self.unsent, self._took = unsent, False
        return self._blocked_since

    def cut(self, reason: Reason) -> None:
        """End the connection at once, whatever is under way."""
        self._over = True
        self._all.refused(reason)
        self._forsake()
        self.transport.abort()

    # -- how it ends ------------------------------------------------------------------------------------------

    def _begin(self, phase: int) -> None:
        if phase is _HEAD:
            self._head = 0
        self._phase, self._since, self._unparsed, self._body = phase, self.loop.time(), 0, 0

    def _refuse_head(self) -> None:
        limit = Size(self._largest_head)
        error = HeadTooLarge(
            f"The address and headers of the request are larger than {limit}.",
            hint="Send less in them, or ask whoever runs the server for a higher `server.max_header`.",
        )
        self._refuse("header-size", error)

    def _refuse(self, reason: Reason, error: HeadwaterError | None) -> None:
        """Answer with the error and read no further. Without an error, or while another answer is under way: cut."""
        if self._over:
            return
        if error is None or not self._answerable():
            self.cut(reason)
            return
        self._over = True
        self._all.refused(reason)
        self.transport.write(_written(error, self._ids()))
        self._forsake()
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER, self.transport.abort)

    def _forsake(self) -> None:
        """Tell the application that the client is gone. uvicorn tells only the newest request, which need not be running."""
        for cycle in (self._answering, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._hot_pending:  # answers go out in the order of their requests
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))
            return
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    # -- the short way ----------------------------------------------------------------------------------------

    @property
    def _hot_pending(self) -> bool:
        return self._hot is not None and bool(self._hot.pending)

    @property
    def busy(self) -> bool:
        """Whether the application's answer to a request is incomplete, or cannot be sent."""
        return bool(self.pipeline) or self.flow.write_paused or (self.cycle is not None and not self.cycle.response_complete)

    @property
    def head_room(self) -> int:
        """By how many bytes the head that has just been parsed could be larger."""
        return self._largest_head - self._head

    def drained(self) -> None:
        """Every hot request is answered: continue with the requests after them."""
        if self._over or self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open: a client that has closed its sending side may still read answers under way.

        Not where an answer waits for something to happen, such as a claim for rows: it would wait for a client that is gone.
        """
        if self._hot is None or self.scheme != "http" or not self._hot_pending or self.busy or self._hot.waits:
            return False
        self._hot.closing = True
        return True

    def shutdown(self) -> None:
        if self._hot_pending and self._hot is not None:
            self._hot.closing = True
        else:
            super().shutdown()

    def _answerable(self) -> bool:
        """Whether the client would read bytes written now as the answer to the request that it is sending."""
        if self.pipeline or self._hot_pending or self.transport.is_closing():
            return False
        cycle = self.cycle
        if cycle is None or self._phase != _BODY or (self._hot is not None and self._hot.collecting):
            return cycle is None or cycle.response_complete
        return not cycle.response_started


def _written(error: HeadwaterError, error_id: str) -> bytes:
    response = problem_answer(error, error_id, {"Connection": "close"})
    head = b"".join(b"%b: %b\r\n" % pair for pair in response.raw_headers)
    phrase = HTTPStatus(error.status).phrase.encode()
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (error.status, phrase, head, bytes(response.body))
