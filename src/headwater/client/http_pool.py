"""The pool of connections to one server: reuses, shares and opens them."""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable
from pathlib import Path

from headwater.client.http_protocol import ConnectionEnded, HttpProtocol
from headwater.core.unix_socket import connect_unix

_CONNECT = 5.0  # seconds
_KEPT = 256  # idle connections
_IDLE = 60.0  # seconds: less than a headwater server keeps an idle connection, so that it closes none under a request
_FRESH = 0.001  # seconds without a check whether the server has closed it
_SHARED = 32  # requests under way on one connection; a server cuts off a client with a hundred


class HttpPool:
    """Connections to a host and port, or to a Unix socket of this machine.

    Small hot requests to a Unix socket share a connection: a headwater server begins them concurrently. Elsewhere each request has its own
    connection, because a proxy would serialize them. If the Unix socket is unreachable, the pool uses the port, as long as `same` says that
    the same server listens there.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        trust: ssl.SSLContext | None = None,
        unix: Path | None = None,
        only_unix: bool = False,
        same: Callable[[], bool] | None = None,
    ) -> None:
        """`only_unix`: there is no port. `same`: looked at before each connection to the port; None: whoever listens there is meant."""
        self._host, self._port, self._trust, self._unix, self._only_unix = host, port, trust, unix, only_unix
        self._same = same
        self._idle: list[HttpProtocol] = []
        self._open: set[HttpProtocol] = set()
        self._most = _KEPT  # connections in it, at which it is looked through
        self._shared: HttpProtocol | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    def ready(self, *, hot: bool) -> HttpProtocol | None:
        """An open connection that may take a request now."""
        shared = self._shared
        if hot and shared is not None and 0 < len(shared.waiting) < _SHARED and not (shared.paused or shared.transport.is_closing()):
            return shared
        while self._idle:
            connection = self._idle.pop()
            if connection.over or connection.transport.is_closing():
                continue
            idle = self._now() - connection.idle_since
            if idle > _IDLE or (idle > _FRESH and _readable(connection)):
                connection.end(ConnectionEnded("idle"))
                continue
            self._share(connection, hot=hot)
            return connection
        return None

    async def connect(self, *, hot: bool) -> HttpProtocol:
        """A new connection. Errors: `OSError`, `TimeoutError`; nothing was sent."""
        loop = self._loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT):
            made = await self._connect(loop)
        if len(self._open) >= self._most:  # forget those that are over, at times: to look at all with each new one takes too long
            self._open = {connection for connection in self._open if not connection.over}
            self._most = max(_KEPT, 2 * len(self._open))
        self._open.add(made)
        if self.closed:
            made.end(ConnectionEnded("closed"))
        self._share(made, hot=hot)
        return made

    def _share(self, protocol: HttpProtocol, *, hot: bool) -> None:
        """Note whether other requests may share the connection with this one: after a long request they would wait as long."""
        if hot and protocol.ours:
            self._shared = protocol
        elif protocol is self._shared:
            self._shared = None

    def _idled(self, protocol: HttpProtocol) -> None:
        if self.closed or len(self._idle) >= _KEPT:
            protocol.end(ConnectionEnded("nobody needs it"))
        else:
            self._idle.append(protocol)

    def close(self) -> None:
        self.closed = True
        for protocol in self._open:
            protocol.end(ConnectionEnded("This connection was closed here."))
        self._open.clear()
        self._idle.clear()

    def _now(self) -> float:
        return 0.0 if self._loop is None else self._loop.time()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> HttpProtocol:
        if self._unix is not None:
            try:
                sock = await connect_unix(self._unix)
            except OSError:
                if self._only_unix:
                    raise
                # Another user's, or gone: the same server listens on the port.
            else:
                return (await loop.create_unix_connection(lambda: HttpProtocol(loop, self._idled, ours=True), sock=sock))[1]
        if self._same is not None and not self._same():
            raise ConnectionRefusedError("its server has ended")  # somebody else may listen there by now
        return (await loop.create_connection(lambda: HttpProtocol(loop, self._idled), self._host, self._port, ssl=self._trust))[1]


def _readable(protocol: HttpProtocol) -> bool:
    """Whether an idle connection has bytes to read: its end, which this loop has not noticed yet."""
    sock = protocol.transport.get_extra_info("socket")
    if sock is None:
        return False
    look = select.poll()
    look.register(sock.fileno(), select.POLLIN)
    return bool(look.poll(0))
