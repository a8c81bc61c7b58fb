"""Accepts connections over TLS. An unfinished handshake counts as a connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from headwater.server.connections import Connections
from headwater.server.tls import Certificate

_AGAIN = 0.1  # seconds before the next accept when the system has no free descriptor


class TlsListener:
    """Accepts on a socket until it is closed. Each handshake uses the certificate as it is at that moment."""

    def __init__(
        self, sock: socket.socket, protocol: Callable[[], asyncio.Protocol], *, certificate: Certificate, connections: Connections
    ) -> None:
        self._sock, self._protocol, self._certificate, self._connections = sock, protocol, certificate, connections
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections, and abort handshakes under way."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(self._sock)
            except OSError:  # no descriptors, or the client left: neither is a reason to stop
                await asyncio.sleep(_AGAIN)
                continue
            task = asyncio.create_task(self._greet(client, str(address[0])))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _greet(self, client: socket.socket, address: str) -> None:
        loop, limits = asyncio.get_running_loop(), self._connections.limits
        with self._connections.handshake(address) as reason:
            if reason is not None:
                self._connections.refused(reason)  # an answer would need the handshake that is refused
                client.close()
                return
            try:
                await loop.connect_accepted_socket(
                    self._protocol, client, ssl=self._certificate.context, ssl_handshake_timeout=limits.header_seconds
                )
            except (OSError, TimeoutError):  # ssl.SSLError is an OSError
                self._connections.refused("handshake")
                with contextlib.suppress(OSError):
                    client.close()
