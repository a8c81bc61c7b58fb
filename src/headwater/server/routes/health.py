"""Is it alive, is it ready, what does it count, what can it do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from headwater.core.errors import Damaged, Unavailable
from headwater.core.metrics import CONTENT_TYPE, Metrics
from headwater.server.call import Call, json_answer
from headwater.server.operation import Answer, Offer, Operation, Role, Schema, offers
from headwater.server.schemas import ref

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.client.local import LocalLog

_TEXT: dict[str, Schema] = {"text/plain": {"type": "string"}}
TABLE = (
    Operation(
        method="GET",
        path="/healthz",
        name="health",
        text="The process answers.",
        role=Role.NOBODY,
        answers={200: Answer("It does.", ref("Health"))},
    ),
    Operation(
        method="GET",
        path="/readyz",
        name="ready",
        text="The log can be used, and the server is not stopping.",
        role=Role.READER,
        answers={200: Answer("It is ready.", ref("Ready"))},
        problems=(503,),
    ),
    Operation(
        method="GET",
        path="/metrics",
        name="metrics",
        text="Counts and times for Prometheus.",
        role=Role.READER,
        answers={200: Answer("The Prometheus text format, version 0.0.4.", _TEXT)},
    ),
    Operation(
        method="GET",
        path="/openapi.json",
        name="openapi",
        text="This description.",
        role=Role.READER,
        answers={200: Answer("OpenAPI 3.1.", {"application/json": {"type": "object"}})},
    ),
)


class HealthRoutes:
    def __init__(self, *, log: LocalLog, metrics: Metrics, stop: asyncio.Event, document: Callable[[], object]) -> None:
        self._log, self._metrics, self._stop, self._document = log, metrics, stop, document

    def offers(self) -> list[Offer]:
        return offers(TABLE, self)

    async def health(self, call: Call) -> ASGIApp:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def ready(self, call: Call) -> ASGIApp:
        if self._stop.is_set():
            raise Unavailable("The server is stopping.", hint="Wait until it has started again.")
        with suppress(Damaged):  # of one topic: the others are served
            await self._log.topics()
        return json_answer({"status": "ready", "log": await self._log.engine()})

    async def metrics(self, call: Call) -> ASGIApp:
        return Response(await asyncio.to_thread(self._metrics.render), headers={"Content-Type": CONTENT_TYPE})

    async def openapi(self, call: Call) -> ASGIApp:
        return Response(msgspec.json.encode(self._document()), media_type="application/json")
