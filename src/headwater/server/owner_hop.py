"""Sends a change that another server owns there, once, so that clients need not look for the owner themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.client.http import pool_of
from headwater.client.http_pool import HttpPool
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.server.app import App
from headwater.server.pass_on import Headers, pass_on
from headwater.server.route import Route, Router
from headwater.wire.line_owners import answered_lines, lines_elsewhere, refused_lines
from headwater.wire.operation import Operation
from headwater.wire.problems import error_of, problem_in

HOP = b"headwater-hop"  # the header of a request that was sent on: it is not sent on again
OWNER = b"headwater-owner"  # the header of its answer: the address of the server that has done it
_NOT_OWNER = 421
_MORE = 60.0  # seconds that an owner may take longer than its operation, such as where a client prefers to wait
_LINES = 300.0  # seconds that it may take for lines
_MOST = 64  # servers whose connections are kept


class OwnerHop:
    """An application that asks the owner where the inner one answers 421 with its address.

    The owner gets the request as it came, its token included, and checks all of it. It answers 421 itself where it has lost what the
    request is about meanwhile: no request is sent on twice. Where it cannot be reached, the client gets the 421. Of a request of lines that
    are done by themselves, each owner gets its lines in one request, and the answer has all lines in their order.
    """

    def __init__(
        self,
        app: ASGIApp,
        inner: App,
        routes: Iterable[Route],
        *,
        parts: Iterable[str],
        address: str,
        max_body: int,
        lost: Callable[[str], None] = lambda address: None,
    ) -> None:
        """`inner`: reports and counts what goes wrong. `parts`: those whose changes are sent on. `address`: of this server. `lost`: is told
        the address of a server that could not be reached, or was not the owner."""
        self._app, self._inner, self._router = app, inner, Router(routes)
        self._parts, self._address, self._max_body, self._lost = frozenset(parts), address, max_body, lost
        self._pools: dict[str, HttpPool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._hopping(scope)
        if operation is None:
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request, answer = list[Message](), list[Message]()
        statuses = (200, _NOT_OWNER) if operation.by_line else (_NOT_OWNER,)

        async def received() -> Message:
            message = await receive()
            request.append(message)
            return message

        async def sent(message: Message) -> None:
            if answer or (message["type"] == "http.response.start" and message["status"] in statuses):
                answer.append(message)
            else:
                await send(message)

        async def again() -> Message:
            return request.pop(0) if request else await receive()

        await self._app(scope, received, sent)
        if answer and answer[0]["status"] == 200:
            body = b"".join(message.get("body", b"") for message in request)
            await self._send_lines(scope, body, answer, send)
            return
        address = _owner_in(answer)
        if address and address != self._address:
            try:
                patience = None if operation.patience is None else operation.patience + _MORE
                answering = ((OWNER, address.encode("latin-1", "replace")),)
                await self._pass_on(address, scope, again, send, answering=answering, patience=patience)
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

    def _hopping(self, scope: Scope) -> Operation[Any, Any] | None:
        """The operation of a request that may be sent on."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS") or any(name == HOP for name, _ in scope["headers"]):
            return None
        match = self._router.find(scope["raw_path"].partition(b"?")[0])
        routes = [] if match is None else match.address.routes(scope["method"])
        return next((route.operation for route in routes if route.operation.part in self._parts), None)

    # -- lines ------------------------------------------------------------------------------------------------

    async def _send_lines(self, scope: Scope, body: bytes, answer: Sequence[Message], send: Send) -> None:
        """Send the answer, in which owners have done the lines that were theirs."""
        answers = b"".join(message.get("body", b"") for message in answer).splitlines()
        elsewhere = {address: numbers for address, numbers in lines_elsewhere(answers).items() if address != self._address}
        if elsewhere:
            lines = [line for line in body.splitlines() if line.strip()]  # blank ones have no answer
            calls = (self._asked(address, scope, [lines[number] for number in numbers]) for address, numbers in elsewhere.items())
            for numbers, got in zip(elsewhere.values(), await asyncio.gather(*calls), strict=True):
                for number, line in zip(numbers, got, strict=False):
                    answers[number] = line
        answer_body = b"".join(line + b"\n" for line in answers)
        headers = [pair for pair in answer[0]["headers"] if pair[0].lower() != b"content-length"]
        await send({**answer[0], "headers": [*headers, (b"content-length", b"%d" % len(answer_body))]})
        await send({"type": "http.response.body", "body": answer_body})

    async def _asked(self, address: str, scope: Scope, lines: Sequence[bytes]) -> Sequence[bytes]:
        """The owner's answers to some lines; none where it cannot be reached, so that the client asks it itself."""
        request: list[Message] = [{"type": "http.request", "body": b"\n".join(lines), "more_body": False}]
        answer = list[Message]()

        async def received() -> Message:
            if not request:
                await asyncio.Event().wait()  # what was begun is ended, also where the client has gone
            return request.pop()

        async def sent(message: Message) -> None:
            answer.append(message)

        try:
            await self._pass_on(address, scope, received, sent, patience=_LINES)
        except HeadwaterError as error:
            return [] if type(error) is Unavailable else refused_lines(error, len(lines))
        body = b"".join(message.get("body", b"") for message in answer)
        is_complete = bool(answer) and not answer[-1].get("more_body", False)
        status = answer[0]["status"] if is_complete else 0
        if status >= 300:
            return refused_lines(error_of(status, body), len(lines))
        answers = answered_lines(body if is_complete else b"", len(lines))
        if lines_elsewhere(answers):
            self._lost(address)
        return answers

    # -- the owner --------------------------------------------------------------------------------------------

    async def _pass_on(
        self, address: str, scope: Scope, receive: Receive, send: Send, *, answering: Headers = (), patience: float | None
    ) -> None:
        async def sent(message: Message) -> None:
            if message.get("status") == _NOT_OWNER:
                self._lost(address)
            await send(message)

        host, asking = urlsplit(address).netloc.encode("ascii", "replace"), ((HOP, b"1"),)
        try:
            await pass_on(
                self._pool(address),
                scope,
                receive,
                sent,
                max_body=self._max_body,
                host=host,
                asking=asking,
                answering=answering,
                patience=patience,
            )
        except HeadwaterError:
            self._lost(address)
            raise

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
