"""uvicorn with limited connections and without its own signal handling."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from headwater.core.ids import Ids
from headwater.server.auth import Tokens
from headwater.server.connection import Connection
from headwater.server.connections import Connections
from headwater.server.hot import HotPath
from headwater.server.tls import Certificate
from headwater.server.tls_listener import TlsListener

_LOOK = 0.25  # seconds between two looks at all connections


class HttpServer(uvicorn.Server):
    """Serves an application. uvicorn's signal handling would raise the signal again after the stop and change the exit status."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        connections: Connections,
        ids: Ids,
        grace: float,
        certificate: Certificate | None = None,
        tokens: Tokens | None = None,
        hot: HotPath | None = None,
    ) -> None:
        """Checks regularly whether the files of `certificate` and `tokens` have changed."""
        config = uvicorn.Config(
            app,
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # malformed requests are counted: warnings would let strangers fill the log
            access_log=False,
            server_header=False,
            proxy_headers=False,
            # longer than our clients keep an idle connection, so that the client closes it, never the server under a request
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(grace),
        )
        super().__init__(config)
        self._connections, self._certificate, self._tokens = connections, certificate, tokens
        self._ids, self._hot = ids, hot
        self.listening = asyncio.Event()
        self.servers: list[asyncio.Server] = []

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        looking = asyncio.create_task(self._look())
        try:
            await super().serve(sockets)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for sock in sockets or ():
            if sock.family == socket.AF_UNIX:
                self.servers.append(await loop.create_unix_server(self._protocol, sock=sock, backlog=self.config.backlog))
            elif self._certificate is not None:
                listener = TlsListener(sock, self._protocol, certificate=self._certificate, connections=self._connections)
                self.servers.append(cast(asyncio.Server, listener))  # uvicorn only closes it and waits for that
            else:
                self.servers.append(await loop.create_server(self._protocol, sock=sock, backlog=self.config.backlog))
        self.started = True
        self.listening.set()

    def _protocol(self) -> asyncio.Protocol:
        return Connection(self.config, self.server_state, self.lifespan.state, connections=self._connections, ids=self._ids, hot=self._hot)

    def stop(self) -> None:
        """Accept no more connections, finish requests under way. Stopping twice is no error."""
        self._connections.stop()
        self.should_exit = True

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK)
            self._connections.look(loop.time())
            if self._certificate is not None:
                self._certificate.renew()
            if self._tokens is not None:
                self._tokens.renew()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
