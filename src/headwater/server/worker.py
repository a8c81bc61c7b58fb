"""One serving process: its sockets, the log and the parts."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import traceback
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib import metadata

import msgspec
from starlette.types import ASGIApp

from headwater import parts
from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import Clock
from headwater.core.errors import Unavailable
from headwater.core.ids import Ids
from headwater.core.metrics import HttpMetrics, Metrics
from headwater.core.settings import Settings
from headwater.core.unix_socket import listen_unix
from headwater.server.app import App
from headwater.server.auth import OriginCheck, Tokens, allowed_hosts
from headwater.server.connections import Connections, Limits
from headwater.server.forward import Forwarding
from headwater.server.handlers import Handlers
from headwater.server.http_server import HttpServer
from headwater.server.listening import descriptors_for, url_of
from headwater.server.openapi import document
from headwater.server.origins import AllowedOrigins
from headwater.server.own import OWN, OwnHandlers
from headwater.server.owner_hop import OwnerHop
from headwater.server.pass_on import ROOM
from headwater.server.route import Route
from headwater.server.streams import Streams
from headwater.server.team import Team
from headwater.server.tls import Certificate
from headwater.wire.part import PartDefinition, WorkerPlace, load

_CLOSING = 2.0  # seconds of the grace that are kept for closing the log
Step = Callable[[], Awaitable[None]]


class Worker:
    """Serves until it is stopped. Answers requests before the log is open; those that need the log wait.

    `team`: the other processes that serve the same sockets; None: there are none.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        tokens: Tokens | None,
        certificate: Certificate | None,
        team: Team | None = None,
    ) -> None:
        self._settings, self._clock, self._ids = settings, clock, ids
        self._tokens, self._certificate, self._team = tokens, certificate, team
        self._servers: list[HttpServer] = []
        self._passing: list[Forwarding | OwnerHop] = []
        self._stopped = asyncio.Event()

    async def serve(
        self, sockets: Sequence[socket.socket], *, started: Step, ending: Step, signals: Callable[[signal.Signals], bool]
    ) -> None:
        """Awaits `started` once the log is open, and `ending` before it closes the log. `signals`: whether a signal is the first one.

        Errors: what opening the log, and the parts' hooks, raise.
        """
        metrics, settings = Metrics(), self._settings.server
        log = local_log(self._settings, self._settings.data, self._clock, metrics.log)
        address = next((url_of(one, tls=self._certificate is not None) for one in sockets if one.family != socket.AF_UNIX), "")
        backend = LocalBackend(log, clock=self._clock, settings=self._settings, address=address)
        limits = Limits.of(settings, descriptors=descriptors_for(settings.max_connections))
        grace = max(0.0, settings.stop_grace.seconds - _CLOSING)
        public, app, own = self._app(log, backend, metrics, address)
        connections = Connections(limits, metrics.http)
        http = HttpServer(
            public,
            connections=connections,
            ids=self._ids,
            grace=grace,
            certificate=self._certificate,
            tokens=self._tokens,
            hot=app.hot,
        )
        self._servers = [http]
        running = [asyncio.create_task(http.serve(list(sockets)))]
        noting = None
        if self._team is not None:
            # Connections of the other workers are not counted: they are no clients, and each of them has counted its own.
            wide = msgspec.structs.replace(limits, header=limits.header + ROOM, connections_per_address=limits.connections)
            inner = HttpServer(
                self._team.app(app, own.check), connections=Connections(wide, HttpMetrics()), ids=self._ids, grace=grace, hot=app.hot
            )
            listening = listen_unix(self._team.folder, self._team.socket(self._team.slot).name)
            self._servers.append(inner)
            running.append(asyncio.create_task(inner.serve([listening] if listening else [])))
            noting = asyncio.create_task(self._team.write_down(metrics))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, number, signals)
        opened: list[PartDefinition] = []
        try:
            # Answer first: opening a log means recovering it, and only requests that need the log wait for that.
            for server in self._servers:
                await server.listening.wait()
            await log.open()
            await self._open(backend, log, opened)
            if not self._stopped.is_set():
                await started()
            await asyncio.gather(*running)
        finally:
            self.stop()
            await asyncio.gather(*running, return_exceptions=True)
            # Appends under way have been answered or given up by now. Queued ones still go to disk before the log closes.
            await ending()
            await self._close(backend, log, opened)
            await backend.aclose()
            await log.aclose()
            if noting is not None and self._team is not None:
                noting.cancel()
                await asyncio.gather(noting, return_exceptions=True)
                await self._team.aclose()
            for one in self._passing:
                one.close()

    def stop(self) -> None:
        """Take no more requests, let those under way end. Stopping twice is no error."""
        self._stopped.set()  # streams end cleanly, so that their connections close
        for server in self._servers:
            server.stop()

    def _signalled(self, number: signal.Signals, signals: Callable[[signal.Signals], bool]) -> None:
        if signals(number):
            self.stop()

    def _app(self, log: LocalLog, backend: LocalBackend, metrics: Metrics, address: str) -> tuple[ASGIApp, App, OwnHandlers]:
        """The outer application, the inner one without forwarding, and the handlers of the server's own operations."""
        server, team = self._settings.server, self._team
        streams = Streams(most=server.max_streams, memory=server.stream_memory, metrics=metrics.http, now=self._clock.monotonic)
        for part in parts.PARTS:
            if part.shares and team is not None:
                load(part.shares)(backend.performer(part.name), WorkerPlace(team.slot, team.size, team.folder))
            if part.measures and self._runs(part):
                load(part.measures)(metrics, backend.performer(part.name), log)
        handlers = Handlers(backend, streams=streams, stop=self._stopped, ids=self._ids)
        described = cache(lambda: document([*OWN, *parts.operations()], metadata.version("headwater")))
        own = OwnHandlers(
            log=log,
            metrics=metrics,
            stop=self._stopped,
            jobs=backend.jobs,
            document=described,
            team=team,
            tokens=self._tokens,
            data=self._settings.data,
        )
        elsewhere = {part.name for part in parts.PARTS if not self._runs(part)}
        hops = {part.name for part in parts.PARTS if part.hops and self._settings.log.engine == "kafka"}
        routes = [
            *own.routes(),
            *(
                _long(route) if route.operation.part in elsewhere or (route.operation.part in hops and route.operation.changes) else route
                for route in handlers.routes()
            ),
        ]
        app = App(
            routes,
            tokens=self._tokens,
            guard=OriginCheck(hosts=None if self._tokens else allowed_hosts(server.host), origins=AllowedOrigins(server.origins)),
            metrics=metrics.http,
            ids=self._ids,
            report=report,
            max_body=server.max_body,
        )
        public: ASGIApp = app
        if team is not None:
            public = forwarding = Forwarding(app, routes, team=team, backend=backend, max_body=server.max_body)
            self._passing.append(forwarding)
        if hops:
            forgets = [(load(part.forgets), backend.performer(part.name)) for part in parts.PARTS if part.name in hops and part.forgets]

            def lost(address: str) -> None:
                for forget, performer in forgets:
                    forget(performer, address)

            public = hopping = OwnerHop(public, app, routes, parts=hops, address=address, max_body=server.max_body, lost=lost)
            self._passing.append(hopping)
        return public, app, own

    def _runs(self, part: PartDefinition) -> bool:
        """Whether this process runs a part."""
        return self._team is None or self._team.owns or not part.owned

    async def _open(self, backend: LocalBackend, log: LocalLog, opened: list[PartDefinition]) -> None:
        for part in parts.PARTS:
            if self._runs(part):
                opened.append(part)
                if part.opens:
                    await load(part.opens)(backend.performer(part.name), log)

    async def _close(self, backend: LocalBackend, log: LocalLog, opened: list[PartDefinition]) -> None:
        """Close the parts in reverse order. Reports a part that fails to close, and closes the others."""
        for part in reversed(opened):
            if part.closes:
                try:
                    await load(part.closes)(backend.performer(part.name), log)
                except Exception as error:
                    report(self._ids(), error)


def _long(route: Route) -> Route:
    return route._replace(hot=None)


def report(error_id: str, error: BaseException) -> None:
    """Log a fault of headwater or of the data under the id that the client got.

    What the machine lacks, such as space on its disk, is one line: where it lies in the code says nothing, and every request meets it.
    """
    logger = logging.getLogger("headwater.server")
    if isinstance(error, Unavailable):
        logger.error("error %s: %s: %s", error_id, error.code, error)
    else:
        logger.error("error %s\n%s", error_id, "".join(traceback.format_exception(error)))
