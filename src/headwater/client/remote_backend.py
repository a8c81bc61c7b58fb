"""Performs operations by asking a server over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar, cast, get_origin

import msgspec

from headwater.client.backend import Backend
from headwater.client.http import HttpConnection
from headwater.client.job import Job
from headwater.client.jobs import JobStatus
from headwater.core.clock import Clock
from headwater.core.errors import Unavailable, Untrusted
from headwater.wire import json
from headwater.wire.operation import Operation, R
from headwater.wire.request import SentRequest, shape_of

A = TypeVar("A")
T = TypeVar("T")
_LONGER = 30.0  # seconds that a client waits longer than an operation may take
_PATIENCE = 30.0  # seconds that a stream waits for a server that restarts
_AGAIN = 0.25
_HOT = 64 << 10  # the largest body, in bytes, that shares a connection
_LIVED = 5.0  # seconds after which a broken stream counts as good: one that breaks at once, again and again, is no headwater server


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]
    next: str | None = None


class RemoteJob(Job[A]):
    """A job of a server."""

    def __init__(self, http: HttpConnection, operation: Operation[Any, A], identity: str) -> None:
        self._http, self._operation, self.id = http, operation, identity

    async def status(self, wait: int = 0) -> JobStatus:
        return await self._ask("GET", wait=wait)

    async def cancel(self) -> JobStatus:
        return await self._ask("DELETE")

    async def _ask(self, method: str, **query: int) -> JobStatus:
        path = f"/jobs/{self.id}"
        answer = await self._http.ask(method, path, params=query, patience=query.get("wait", 0) + _LONGER)
        return self._http.understood(method, path, json.decoder(JobStatus), answer)

    def _answer(self, status: JobStatus) -> A:
        if self._operation.answer is None:
            return cast(A, None)
        return self._http.understood("GET", f"/jobs/{self.id}", json.decoder(self._operation.answer), json.encode(status.answer))


class RemoteBackend(Backend):
    """Asks one server over HTTP."""

    def __init__(self, http: HttpConnection, *, clock: Clock) -> None:
        self.http, self._clock = http, clock

    async def ask(self, operation: Operation[R, A], request: R) -> A:
        if get_origin(operation.answer) is list:
            request.check()
            return await self._all(operation, shape_of(operation).write(request))
        if operation.reads is not None:
            return await self._with_headers(operation, request, operation.reads)
        if operation.answer is None or operation.answer is bytes:
            return cast(A, await self.raw(operation, request, bytes))  # without content it is empty
        if 204 in operation.statuses:  # whose answer without content is the one that holds nothing
            read, nothing = json.decoder(operation.answer), operation.answer
            return await self.raw(operation, request, lambda body: read(body) if body else nothing())
        return await self.raw(operation, request, json.decoder(operation.answer))

    async def start(self, operation: Operation[R, A], request: R) -> Job[A]:
        headers = {} if operation.kind == "job" else {"Prefer": "respond-async"}
        begun = await self.raw(operation, request, json.decoder(JobStatus), headers=headers)
        return RemoteJob(self.http, operation, begun.id)

    async def aclose(self) -> None:
        await self.http.aclose()

    async def raw(self, operation: Operation[R, Any], request: R, read: Callable[[bytes], T], **parts: Any) -> T:
        """The answer's body, parsed by `read`. `parts`: another body than the request's own."""
        request.check()
        sent = shape_of(operation).write(request)
        body = operation.sends(request) if operation.sends is not None else None
        answer = await self._ask(operation, sent, body, waits=request.waits(), **parts)
        return self.http.understood(operation.method, sent.path, read, answer)

    async def _with_headers(self, operation: Operation[R, A], request: R, reads: Callable[[bytes, Mapping[str, str]], A]) -> A:
        """An answer that is made of the response's headers, too."""
        seen: dict[str, str] = {}
        return await self.raw(operation, request, lambda body: reads(body, seen), seen=seen)

    async def _ask(
        self, operation: Operation[R, Any], sent: SentRequest, body: tuple[str, bytes] | None = None, *, waits: float = 0.0, **parts: Any
    ) -> bytes:
        headers = {**sent.headers, **parts.pop("headers", {})}
        if sent.body is not None:
            parts, headers = {**parts, "content": sent.body}, {"Content-Type": "application/json", **headers}
        elif body is not None:
            hot = len(body[1]) <= _HOT and not waits
            parts, headers = {**parts, "content": body[1], "hot": hot}, {"Content-Type": body[0], **headers}
        patience = None if operation.patience is None else operation.patience + waits + _LONGER
        return await self.http.ask(operation.method, sent.path, params=dict(sent.query), headers=headers, patience=patience, **parts)

    async def _all(self, operation: Operation[R, A], sent: SentRequest) -> A:
        """A list, page by page."""
        items: list[msgspec.Raw] = []
        query: dict[str, Any] = dict(sent.query)
        if operation.paging is not None:
            query["limit"] = operation.paging.most
        assert operation.answer is not None
        while True:
            answer = await self._ask(operation, msgspec.structs.replace(sent, query=query))
            page = self.http.understood(operation.method, sent.path, json.decoder(_Items), answer)
            items += page.items
            if page.next is None:
                return self.http.understood(operation.method, sent.path, json.decoder(operation.answer), msgspec.json.encode(items))
            query = {**query, "cursor": page.next}

    async def stream(self, operation: Operation[R, A], request: R, resume: Callable[[A], R] | None = None) -> AsyncIterator[A]:
        assert operation.answer is not None
        async for item in self.raw_stream(operation, request, json.decoder(operation.answer), resume):
            yield item

    async def raw_stream(
        self, operation: Operation[R, Any], request: R, read: Callable[[str], T], resume: Callable[[T], R] | None = None
    ) -> AsyncIterator[T]:
        """The data of each event, parsed by `read`."""
        request.check()
        missed: float | None = None  # since when the server has not answered
        answered: float | None = None  # when this stream began
        while True:
            try:
                sent = shape_of(operation).write(request)
                stream = self.http.events(sent.path, params=dict(sent.query), headers=dict(sent.headers), names=operation.events)
                async with stream as events:
                    answered = self._clock.monotonic()
                    async for event in events:
                        item = self.http.understood(operation.method, sent.path, read, event.data)
                        missed, request = None, request if resume is None else resume(item)
                        yield item
                if resume is None:
                    return
            except Unavailable as error:
                now = self._clock.monotonic()
                if answered is not None and now - answered > _LIVED:
                    missed = None
                missed, answered = now if missed is None else missed, None
                if resume is None or isinstance(error, Untrusted) or self.http.closed or now - missed > _PATIENCE:
                    raise
            # A restarting server ends its streams: resume after the last item, so that the caller sees no break, as over a directory.
            await asyncio.sleep(_AGAIN)
