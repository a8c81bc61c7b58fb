"""Sends a change that another server owns there, once, so that clients need not look for the owner themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.client.http import pool_of
from headwater.client.http_pool import HttpPool
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.server.app import App
from headwater.server.pass_on import pass_on
from headwater.server.route import Route, Router
from headwater.wire.problems import problem_in

HOP = b"headwater-hop"  # the header of a request that was sent on: it is not sent on again
OWNER = b"headwater-owner"  # the header of its answer: the address of the server that has done it
_NOT_OWNER = 421
_MOST = 64  # servers whose connections are kept


class OwnerHop:
    """An application that asks the owner where the inner one answers 421 with its address.

    The owner gets the request as it came, its token included, and checks all of it. It answers 421 itself where it has lost what the
    request is about meanwhile: no request is sent on twice. Where it cannot be reached, the client gets the 421.
    """

    def __init__(self, app: ASGIApp, inner: App, routes: Iterable[Route], *, parts: Iterable[str], address: str, max_body: int) -> None:
        """`inner`: reports and counts what goes wrong. `parts`: those whose changes are sent on. `address`: of this server."""
        self._app, self._inner, self._router = app, inner, Router(routes)
        self._parts, self._address, self._max_body = frozenset(parts), address, max_body
        self._pools: dict[str, HttpPool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._may_hop(scope):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request, answer = list[Message](), list[Message]()

        async def received() -> Message:
            message = await receive()
            request.append(message)
            return message

        async def sent(message: Message) -> None:
            if answer or (message["type"] == "http.response.start" and message["status"] == _NOT_OWNER):
                answer.append(message)
            else:
                await send(message)

        async def again() -> Message:
            return request.pop(0) if request else await receive()

        await self._app(scope, received, sent)
        address = _owner_in(answer)
        if address and address != self._address:
            try:
                host, pool = urlsplit(address).netloc.encode("ascii", "replace"), self._pool(address)
                asking, answering = ((HOP, b"1"),), ((OWNER, address.encode("latin-1", "replace")),)
                await pass_on(pool, scope, again, send, max_body=self._max_body, host=host, asking=asking, answering=answering)
                return
            except HeadwaterError as error:
                if type(error) is not Unavailable:  # else nothing was sent: the client may know a way
                    await self._inner.refuse(error, scope, receive, send, began=began)
                    return
        for message in answer:
            await send(message)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def _may_hop(self, scope: Scope) -> bool:
        if scope["method"] in ("GET", "HEAD", "OPTIONS") or any(name == HOP for name, _ in scope["headers"]):
            return False
        match = self._router.find(scope["raw_path"].partition(b"?")[0])
        return match is not None and any(route.operation.part in self._parts for route in match.address.routes(scope["method"]))

    def _pool(self, address: str) -> HttpPool:
        pool = self._pools.get(address)
        if pool is None:
            if len(self._pools) >= _MOST:
                self._pools.pop(next(iter(self._pools))).close()
            pool = self._pools[address] = pool_of(address)
        return pool


def _owner_in(answer: list[Message]) -> str:
    problem = problem_in(b"".join(message.get("body", b"") for message in answer))
    return "" if problem is None else problem.address
