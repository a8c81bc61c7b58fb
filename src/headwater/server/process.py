"""A running server, from locking its directory to releasing it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable

import uvloop

from headwater.client.presence import SOCKET, Presence
from headwater.core.clock import Clock
from headwater.core.files import Files
from headwater.core.ids import Ids
from headwater.core.settings import Settings
from headwater.core.unix_socket import listen_unix, remove_unix
from headwater.server.auth import Tokens
from headwater.server.companion import Companion
from headwater.server.listening import listen, url_of
from headwater.server.supervisor import Supervisor
from headwater.server.tls import Certificate
from headwater.server.worker import Worker
from headwater.wire.times import show_time


class Server:
    """Serves one directory until a signal: the first stops cleanly within the grace, the second at once (exit 130).

    It answers requests before the log is open; those that need the log wait. It calls `ready` with the address, from a thread, once the log
    is open. It starts a `companion` after that and ends it before it closes the log.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        files: Files,
        ready: Callable[[str], None],
        companion: Companion | None = None,
    ) -> None:
        self._settings, self._clock, self._ids, self._files = settings, clock, ids, files
        self._ready, self._companion = ready, companion
        self._presence = Presence(settings.data, files=files, clock=clock)
        self._sockets: list[socket.socket] = []
        self._url = ""
        self._signals = 0

    def run(self) -> None:
        """Serve until stopped. Errors: `BadConfig`, `Conflict`, and those of opening the log; then no file is left behind."""
        server, data = self._settings.server, self._settings.data
        tokens = Tokens.load(server.token_file) if server.token_file else None
        certificate = Certificate.of(server)
        if tokens and self._companion:
            tokens = tokens.with_operator(self._companion.token)
        self._presence.take()
        try:
            sock = listen(server.host, server.port, tokens=tokens is not None)
            unix = None if certificate else listen_unix(data, SOCKET)  # over TLS clients prove whom they speak to
            self._sockets = [sock, unix] if unix else [sock]
            self._url = url_of(sock, tls=certificate is not None)
            if server.workers > 1:
                self._run_workers(tokens, certificate)
            else:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._serve(tokens, certificate))
        finally:
            remove_unix(data, SOCKET)
            self._presence.leave()

    async def _serve(self, tokens: Tokens | None, certificate: Certificate | None) -> None:
        worker = Worker(self._settings, clock=self._clock, ids=self._ids, tokens=tokens, certificate=certificate)
        await worker.serve(self._sockets, started=self._started, ending=self._ending, signals=self._signalled)

    def _run_workers(self, tokens: Tokens | None, certificate: Certificate | None) -> None:
        supervisor = Supervisor(
            self._settings,
            clock=self._clock,
            ids=self._ids,
            tokens=tokens,
            certificate=certificate,
            sockets=self._sockets,
            started=self._announce,
            ending=lambda: asyncio.run(self._ending()),
        )
        if not supervisor.run():
            self._leave_at_once()

    async def _started(self) -> None:
        await asyncio.to_thread(self._announce)

    def _announce(self) -> None:
        started = str(show_time(self._clock.now_ms()))
        self._presence.announce(self._url, pid=os.getpid(), started=started, socket=SOCKET if len(self._sockets) > 1 else "")
        self._ready(self._url)
        if self._companion is not None and not self._signals:
            self._companion.start(self._url)

    async def _ending(self) -> None:
        if self._companion is not None:
            await self._companion.end()

    def _signalled(self, number: signal.Signals) -> bool:
        self._signals += 1
        if self._signals > 1:
            self._leave_at_once()
        return True

    def _leave_at_once(self) -> None:
        """End without cleaning up: nothing acknowledged depends on a clean end."""
        if self._companion is not None:
            self._companion.kill()
        remove_unix(self._settings.data, SOCKET)
        self._presence.leave()
        os._exit(130)
