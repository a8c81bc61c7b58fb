"""A running server, from taking its directory to letting go of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import traceback
from collections.abc import Callable
from functools import cache
from importlib import metadata

import uvloop

from headwater import parts
from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.presence import SOCKET, Presence
from headwater.core.clock import Clock
from headwater.core.files import Files
from headwater.core.ids import Ids
from headwater.core.metrics import Metrics
from headwater.core.settings import Settings
from headwater.server.app import App
from headwater.server.auth import Guard, Tokens, allowed_hosts
from headwater.server.companion import Companion
from headwater.server.connections import Connections, Limits
from headwater.server.handlers import Handlers
from headwater.server.http_server import HttpServer
from headwater.server.listening import descriptors_for, listen, url_of
from headwater.server.openapi import document
from headwater.server.own import OWN, OwnHandlers
from headwater.server.streams import Streams
from headwater.server.tls import Certificate
from headwater.server.unix_socket import listen_unix, remove_unix
from headwater.wire.part import load
from headwater.wire.times import show_time

_CLOSING = 2.0  # seconds of the grace that are kept for closing the log
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server:
    """Serves one directory until a signal: the first stops cleanly within the grace, the second at once (exit 130).

    Requests are answered before the log is open; those that need it wait. `ready` is called with the address, from a thread, once it is
    open. A `companion` is started after that and ended before the log is closed.
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
        self._unix: socket.socket | None = None
        self._signals = 0

    def run(self) -> None:
        """Serve until stopped. Errors: `BadConfig`, `Conflict`, and what opening the log raises; then nothing is left behind."""
        server = self._settings.server
        tokens = Tokens.load(server.token_file) if server.token_file else None
        certificate = Certificate.of(server)
        if tokens and self._companion:
            tokens = tokens.with_operator(self._companion.token)
        self._presence.take()
        try:
            sock = listen(server.host, server.port, tokens=tokens is not None)
            self._unix = None if certificate else listen_unix(self._settings.data)  # over TLS clients prove whom they speak to
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(sock, tokens, certificate))
        finally:
            remove_unix(self._settings.data)
            self._presence.leave()

    async def _serve(self, sock: socket.socket, tokens: Tokens | None, certificate: Certificate | None) -> None:
        metrics, stop, url = Metrics(), asyncio.Event(), url_of(sock, tls=certificate is not None)
        log = local_log(self._settings, self._settings.data, self._clock, metrics.log)
        settings = self._settings.server
        connections = Connections(Limits.of(settings, descriptors=descriptors_for(settings.max_connections)), metrics.http)
        grace = max(0.0, settings.stop_grace.seconds - _CLOSING)
        backend = LocalBackend(log, clock=self._clock)
        app = self._app(log, backend, metrics, stop, tokens)
        http = HttpServer(app, connections=connections, ids=self._ids, grace=grace, certificate=certificate)
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._signalled, stop, http)
        serving = asyncio.create_task(http.serve([sock, self._unix] if self._unix else [sock]))
        try:
            # Answering comes first: opening a log means recovering it, and is waited for by the requests that need it.
            await http.listening.wait()
            await log.open()
            if not stop.is_set():
                await self._started(url)
            await serving
        finally:
            self._stop(stop, http)
            await asyncio.gather(serving, return_exceptions=True)
            # Appends under way have been answered or given up by now: what is queued still goes to disk before the files are let go.
            if self._companion is not None:
                await self._companion.end()
            await backend.aclose()
            await log.aclose()

    def _app(self, log: LocalLog, backend: LocalBackend, metrics: Metrics, stop: asyncio.Event, tokens: Tokens | None) -> App:
        version = metadata.version("headwater")
        server = self._settings.server
        streams = Streams(most=server.max_streams, memory=server.stream_memory, metrics=metrics.http, now=self._clock.monotonic)
        for part in parts.PARTS:
            if part.measures:
                load(part.measures)(metrics, backend.performer(part.name), log)
        handlers = Handlers(backend, streams=streams, stop=stop, ids=self._ids)
        described = cache(lambda: document([*OWN, *parts.operations()], version))
        own = OwnHandlers(log=log, metrics=metrics, stop=stop, jobs=backend.jobs, document=described)
        return App(
            [*own.routes(), *handlers.routes()],
            tokens=tokens,
            guard=Guard(hosts=None if tokens else allowed_hosts(server.host)),
            metrics=metrics.http,
            ids=self._ids,
            report=_report,
            max_body=server.max_body,
        )

    async def _started(self, url: str) -> None:
        started = str(show_time(self._clock.now_ms()))
        self._presence.announce(url, pid=os.getpid(), started=started, socket=SOCKET if self._unix else "")
        await asyncio.to_thread(self._ready, url)
        if self._companion is not None and not self._signals:
            self._companion.start(url)

    def _signalled(self, stop: asyncio.Event, http: HttpServer) -> None:
        self._signals += 1
        if self._signals > 1:
            if self._companion is not None:
                self._companion.kill()
            remove_unix(self._settings.data)
            self._presence.leave()
            os._exit(130)  # at once: nothing acknowledged depends on a clean end
        self._stop(stop, http)

    def _stop(self, stop: asyncio.Event, http: HttpServer) -> None:
        stop.set()  # streams end whole, so that their connections close
        http.stop()


def _report(error_id: str, error: BaseException) -> None:
    """A fault of ours or of the data, to the log under the id that the client was given."""
    text = "".join(traceback.format_exception(error))
    logging.getLogger("headwater.server").error("error %s\n%s", error_id, text)
