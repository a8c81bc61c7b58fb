"""Calls between processes of one machine over a Unix socket: many under way on one connection, those of one turn of the loop in one write.

A frame is a u32 with the length of what follows, a u64 that numbers the call, and a payload; an answer has the number of its call.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from headwater.core.clock import Alarm, Clock
from headwater.core.errors import Busy, Closed, OutcomeUnknown, Unavailable
from headwater.core.unix_socket import connect_unix, listen_unix

_HEAD = struct.Struct(">IQ")
_NUMBER = 8  # bytes of the number, which the length counts
_PAUSE = 0.02  # seconds between two tries to connect
_PATIENCE = 15.0  # seconds in which a dead process is replaced
_LEAVING = 5.0  # seconds in which callers that stop, too, have their last answers
_LOOK = 1.0  # seconds between two looks for calls that are late
_MOST = 4096  # calls that wait for a connection
_logger = logging.getLogger("headwater.cluster")
Answering = Callable[[bytes], "asyncio.Future[bytes]"]
"""Answers the payload of a call with a payload. It raises nothing: errors are answers, too."""


class _Frames(asyncio.Protocol, ABC):
    """One end of a connection."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._out: list[bytes] = []
        self.transport: asyncio.Transport | None = None
        self.over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is of no such class

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        start = 0
        while len(received) - start >= _HEAD.size:
            length, number = _HEAD.unpack_from(received, start)
            end = start + _HEAD.size - _NUMBER + length
            if len(received) < end:
                break
            self.came(number, bytes(received[start + _HEAD.size : end]))
            start = end
        del received[:start]

    def connection_lost(self, error: Exception | None) -> None:
        self.over = True
        self.ended()

    def send(self, number: int, payload: bytes) -> None:
        """Write a frame at the end of this turn of the loop, with all others of it."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(_HEAD.pack(len(payload) + _NUMBER, number) + payload)

    def close(self) -> None:
        self.over = True
        self._flush()
        if self.transport is not None:
            self.transport.close()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self.transport is not None and not self.transport.is_closing():
            self.transport.write(b"".join(out))

    @abstractmethod
    def came(self, number: int, payload: bytes) -> None:
        """A whole frame has come."""

    @abstractmethod
    def ended(self) -> None:
        """The connection is over."""


class _Asking(_Frames):
    """The end of the caller."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock, self._number = clock, 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._due: dict[int, float] = {}  # when a call is late
        self._alarm: Alarm | None = None

    def ask(self, payload: bytes, patience: float | None) -> asyncio.Future[bytes]:
        """Errors: `Unavailable` where the connection has ended: nothing was sent, and nobody would tell its end again."""
        if self.over:
            raise Unavailable("The process that does this has ended.", hint="Ask again in a moment.")
        self._number += 1
        future = self._waiting[self._number] = self._loop.create_future()
        if patience is not None:
            self._due[self._number] = self._clock.monotonic() + patience
            if self._alarm is None:  # one alarm looks after all calls: one for each would cost more than the call
                self._alarm = self._clock.call_later(_LOOK, self._look)
        self.send(self._number, payload)
        return future

    def _look(self) -> None:
        """Give up the calls that are late: the process hangs, and its connection may stay open for ever."""
        now = self._clock.monotonic()
        for number in [number for number, due in self._due.items() if due <= now]:
            del self._due[number]
            future = self._waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_exception(
                    _unknown("The process that does this does not answer; it may have been done or not, or be done later.")
                )
        self._alarm = self._clock.call_later(_LOOK, self._look) if self._due else None

    def came(self, number: int, payload: bytes) -> None:
        self._due.pop(number, None)
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():  # else its caller has given up
            future.set_result(payload)

    def ended(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self._due.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        for future in waiting.values():
            if not future.done():
                future.set_exception(_unknown("The process that does this ended before it answered; it may have been done or not."))


def _unknown(says: str) -> OutcomeUnknown:
    return OutcomeUnknown(says, hint="Read what is there before sending it again, or send it again with the same idempotency key.")


class ForwardClient:
    """Calls the process that listens at a path. Belongs to one event loop.

    A process that is not there yet is waited for: another one may just be taking the place of a dead one.
    """

    def __init__(self, path: Path, *, clock: Clock, patience: float = _PATIENCE) -> None:
        self._path, self._clock, self._patience = path, clock, patience
        self._connection: _Asking | None = None
        self._connecting: asyncio.Task[_Asking] | None = None
        self._stashed = 0
        self._closed = False

    async def call(self, payload: bytes, *, patience: float | None = None, again: bool = False) -> bytes:
        """The answer. `patience`: seconds that it may take; None: as long as the process lives. `again`: whether it may be made twice, so
        that it is sent to the successor of a process that ends.

        Errors: `Unavailable` where nobody listens, `Busy` where too many wait for that, `Closed`: nothing was sent; `OutcomeUnknown` where
        the process ends before it has answered, or does not answer in time.
        """
        connection = self._connection
        if connection is None or connection.over:
            connection = await self._connected()
        try:
            return await connection.ask(payload, patience)
        except OutcomeUnknown:
            if not again or not connection.over:
                raise
        return await (await self._connected()).ask(payload, patience)

    async def _connected(self) -> _Asking:
        if self._closed:
            raise Closed("This process is stopping.", hint="Ask again in a moment.")
        if self._stashed >= _MOST:
            raise Busy(f"{self._stashed} calls wait for the process that does this.", hint="Ask again in a moment.")
        self._stashed += 1
        try:
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.ensure_future(self._connect())
                self._connecting.add_done_callback(lambda late: late.cancelled() or late.exception())  # its callers may have given up
            return await asyncio.shield(self._connecting)
        finally:
            self._stashed -= 1

    async def _connect(self) -> _Asking:
        loop, until = asyncio.get_running_loop(), self._clock.monotonic() + self._patience
        while True:
            try:
                sock = await connect_unix(self._path)
                break
            except OSError as error:
                if self._closed or self._clock.monotonic() >= until:
                    raise Unavailable("The process that does this is being started.", hint="Ask again in a moment.") from error
            await self._clock.sleep(_PAUSE)
        _, self._connection = await loop.create_unix_connection(lambda: _Asking(self._clock), sock=sock)
        if self._closed:
            self._connection.close()
        return self._connection

    async def aclose(self) -> None:
        """Give up what is under way. Closing twice is no error."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()


class _Answering(_Frames):
    """The end of the process that does it."""

    def __init__(self, answer: Answering, connections: set[_Answering]) -> None:
        super().__init__()
        self._answer, self._connections = answer, connections
        self.under_way: set[asyncio.Future[bytes]] = set()
        connections.add(self)

    def came(self, number: int, payload: bytes) -> None:
        try:
            answer = self._answer(payload)
        except Exception:
            _logger.exception("A call of another process was not understood.")
            self.close()
            return
        self.under_way.add(answer)
        answer.add_done_callback(partial(self._answered, number))

    def _answered(self, number: int, answer: asyncio.Future[bytes]) -> None:
        self.under_way.discard(answer)
        if answer.cancelled() or (error := answer.exception()) is not None:  # a mistake of ours: the caller must not wait for ever
            _logger.error("A call of another process failed.", exc_info=None if answer.cancelled() else error)
            self.close()
        else:
            self.send(number, answer.result())

    def ended(self) -> None:
        self._connections.discard(self)


class ForwardServer:
    """Answers the calls of other processes of this user, whatever their number. Belongs to one event loop."""

    def __init__(self, answer: Answering, *, clock: Clock) -> None:
        self._answer, self._clock = answer, clock
        self._connections: set[_Answering] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, path: Path) -> None:
        """Listen, in the place of a dead process. Errors: `Unavailable` where the folder has no sockets."""
        sock = listen_unix(path.parent, path.name)
        if sock is None:
            raise Unavailable(f"Nobody can listen at {path}.", hint="Keep the data directory on a file system that has Unix sockets.")
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Answering(self._answer, self._connections), sock=sock)

    async def aclose(self, *, patience: float | None = None) -> None:
        """Answer until all callers have left, for so many seconds at most (5), then close. Closing twice is no error."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        until = self._clock.monotonic() + (_LEAVING if patience is None else patience)
        while self._connections and self._clock.monotonic() < until:
            await self._clock.sleep(_PAUSE)
        connections = list(self._connections)
        await asyncio.gather(*(answer for connection in connections for answer in connection.under_way), return_exceptions=True)
        await asyncio.sleep(0)  # in which they are sent
        for connection in connections:
            connection.close()
