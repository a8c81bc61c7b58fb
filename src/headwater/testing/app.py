"""The server's application over a log, without a socket, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater import parts
from headwater.client.local import LocalLog
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import Clock, SystemClock
from headwater.core.metrics import Metrics
from headwater.server.app import App
from headwater.server.auth import OriginCheck, Tokens
from headwater.server.handlers import Handlers
from headwater.server.openapi import document
from headwater.server.origins import AllowedOrigins
from headwater.server.own import OWN, OwnHandlers
from headwater.server.route import Route
from headwater.server.streams import Streams


def app_over(
    log: LocalLog,
    *,
    tokens: Tokens | None = None,
    hosts: frozenset[str] | None = None,
    metrics: Metrics | None = None,
    report: Callable[[str, BaseException], None] | None = None,
    more: Sequence[Route] = (),
    clock: Clock | None = None,
    performers: Mapping[str, Any] | None = None,
    origins: Sequence[str] = (),
    backend: LocalBackend | None = None,
) -> App:
    """Every address of the server and `more`. Ids are `id`, bodies have up to 10,000 bytes. `performers`: of parts, in place
    of theirs. `origins`: of other sites, whose pages may ask. `backend`: one that the test closes, with all that it has opened. The
    front page calls the directory `orders-data`."""
    clock, metrics, stop = clock or SystemClock(), metrics or Metrics(), asyncio.Event()
    backend = LocalBackend(log, clock=clock, performers=performers) if backend is None else backend
    streams = Streams(most=10, memory=1 << 20, metrics=metrics.http, now=clock.monotonic)
    handlers = Handlers(backend, streams=streams, stop=stop, ids=lambda: "id")
    own = OwnHandlers(
        log=log,
        metrics=metrics,
        stop=stop,
        jobs=backend.jobs,
        document=lambda: document([*OWN, *parts.operations()], "1"),
        tokens=tokens,
        data=Path("/folder/orders-data"),
    )
    return App(
        [*own.routes(), *handlers.routes(), *more],
        tokens=tokens,
        guard=OriginCheck(hosts=hosts, origins=AllowedOrigins(origins)),
        metrics=metrics.http,
        ids=lambda: "id",
        report=report or (lambda error_id, error: None),
        max_body=10_000,
    )
