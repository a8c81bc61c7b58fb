"""The general handler of operations: reads the request, performs it, writes the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from headwater import parts
from headwater.client.local_backend import LocalBackend
from headwater.core.ids import Ids
from headwater.server.call import Call, json_answer
from headwater.server.hot import HotHandler
from headwater.server.paging import link_to_next, page_of
from headwater.server.route import Handler, Route
from headwater.server.stream import EventStream, LineStream
from headwater.server.streams import Streams
from headwater.wire import json
from headwater.wire.operation import Operation, Reply
from headwater.wire.part import load

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Handlers:
    """Makes the routes of all parts."""

    def __init__(self, backend: LocalBackend, *, streams: Streams, stop: asyncio.Event, ids: Ids) -> None:
        self.backend, self.streams, self.stop, self.ids = backend, streams, stop, ids

    def routes(self) -> list[Route]:
        """One route for each operation of each part. A part's own handler outranks the general one; `<operation>_hot` is its hot path."""
        routes = []
        for part in parts.PARTS:
            own = load(part.handlers)(self) if part.handlers else None
            for operation in part.operations:
                handler: Handler | None = getattr(own, operation.name, None)
                hot: HotHandler | None = getattr(own, f"{operation.name}_hot", None)
                routes.append(Route(operation, handler or partial(getattr(self, operation.kind), operation), hot))
        return routes

    async def ask(self, operation: Operation[Any, Any], call: Call) -> ASGIApp:
        if operation.patience is None and "respond-async" in (call.header(b"prefer") or "").lower():
            return await self.job(operation, call)
        answer = await self.backend.perform(operation, await call.request(), who=call.who)
        return self.answered(operation, call, answer)

    async def job(self, operation: Operation[Any, Any], call: Call, *, request: Any = None) -> ASGIApp:
        """`request`: where it is read already; a body comes only once."""
        request, who = await call.request() if request is None else request, call.who
        job = self.backend.jobs.start(operation, lambda: self.backend.perform(operation, request, who=who), starter=call.caller)
        return json_answer(job, 202, {"Location": f"/jobs/{job.id}"})

    async def stream(self, operation: Operation[Any, Any], call: Call) -> ASGIApp:
        items = self.backend.stream(operation, await call.request())
        if operation.media == "text/event-stream":
            return EventStream(_events(items, operation.named), streams=self.streams, stop=self.stop, ids=self.ids)
        return LineStream(_lines(items), streams=self.streams)

    def answered(self, operation: Operation[Any, Any], call: Call, answer: Any) -> Response:
        """The HTTP response for an answer."""
        status, headers = next(iter(operation.statuses), 0), {}
        if isinstance(answer, Reply):
            status, headers, answer = answer.status or status, dict(answer.headers), answer.value
        if operation.answer is None:
            return Response(status_code=status or 204, headers=headers)
        if operation.answer is bytes:
            return Response(answer, status or 200, {"Content-Type": operation.media, **headers})
        if isinstance(answer, list):
            following, cursor = None, "cursor"
            if operation.paging is not None:
                answer, following = page_of(operation.paging, answer, call.query["cursor"], call.query["limit"])
            answer = {"items": answer, "next": following}
        else:
            following, cursor = getattr(answer, "next", None) if operation.continues else None, operation.continues
        link = link_to_next(call.scope["path"], call.query, cursor, following)
        return json_answer(answer, status or 200, {**headers, **(link or {})})


async def _events(items: Any, named: str) -> AsyncGenerator[bytes]:
    """Items as server-sent events; an item with an id is a pair of both. `named`: the field of an item that names the event."""
    async for item in items:
        identity, value = item if isinstance(item, tuple) else (None, item)
        head = b"" if identity is None else b"id: %b\n" % str(identity).encode()
        if named:
            head += b"event: %b\n" % getattr(value, named).encode()
        yield b"%bdata: %b\n\n" % (head, json.encode(value))


async def _lines(items: Any) -> AsyncGenerator[bytes]:
    async for item in items:
        yield json.encode(item[1] if isinstance(item, tuple) else item) + b"\n"
