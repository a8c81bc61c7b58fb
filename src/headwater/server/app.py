"""The ASGI application: from a request to a checked call, and from an error to a problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headwater.core.errors import BadMethod, Forbidden, HeadwaterError, NotFound
from headwater.core.ids import Ids
from headwater.core.metrics import HttpMetrics
from headwater.server.auth import OriginCheck, Tokens
from headwater.server.call import ALLOW, CALLER, WHO, Call, ClientGone
from headwater.server.caller import ANYBODY, OWNER, Caller, beyond_prefixes, is_job
from headwater.server.hot import HotPath
from headwater.server.path_rules import check_rules
from headwater.server.problem import problem_answer
from headwater.server.route import Address, Match, Route, Router
from headwater.server.tickets import ADDRESS as TICKETS
from headwater.server.tickets import take_ticket
from headwater.wire.operation import Role

Report = Callable[[str, BaseException], None]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_ROUTE = "headwater.route"


class App:
    """Answers and counts every request. Calls `report` with the id and the exception of every fault of headwater or of the data (status 500
    and above).
    """

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        tokens: Tokens | None,
        guard: OriginCheck,
        metrics: HttpMetrics,
        ids: Ids,
        report: Report,
        max_body: int,
    ) -> None:
        self._tokens, self._guard, self._metrics, self._ids, self._report = tokens, guard, metrics, ids, report
        all_routes = list(routes)
        self._router, self._max_body = Router(all_routes), max_body
        self.hot = HotPath(all_routes, tokens=tokens, guard=guard, metrics=metrics, problem=self.hot_problem, max_body=max_body)
        self._open = {route.operation.path for route in all_routes if route.operation.role is Role.NOBODY}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        status = 0
        origin = self._guard.origins.of(scope["headers"])

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if origin is not None:
                    message["headers"] = [*message["headers"], *self._guard.origins.told(origin)]
            await send(message)

        try:
            if origin is not None and self._guard.origins.asks_before(scope["method"], scope["headers"]):
                await self._guard.origins.permission()(scope, receive, counted)
                return
            self._identify(scope)
            await self._handle(scope, receive, counted)
        except ClientGone:
            status = 499  # the client has left
        except Exception as error:
            if status:
                # The answer has begun: ending it early tells the client that it is incomplete.
                self._report(self._ids(), error)
                raise
            await self._answer(error, scope)(scope, receive, counted)
        finally:
            self._count(scope, status, began)

    def admits(self, scope: Scope, receive: Receive) -> bool:
        """Whether a request passes every check that comes before its body: where it comes from, token, address, role and parameters."""
        try:
            self._identify(scope)
            match = self._router.find(scope["raw_path"].partition(b"?")[0])
            routes = [] if match is None else match.address.routes(scope["method"])
            return match is not None and bool(routes) and self._admitted(match, routes, scope, receive) is not None
        except HeadwaterError:
            return False

    async def refuse(self, error: HeadwaterError, scope: Scope, receive: Receive, send: Send, *, began: float) -> None:
        """Answer, report and count a request that failed outside of this application. `began`: of `time.perf_counter`."""
        response = self._answer(error, scope)
        self._count(scope, response.status_code, began)
        await response(scope, receive, send)

    def _count(self, scope: Scope, status: int, began: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.answered(scope.get(_ROUTE, "unmatched"), method, status, time.perf_counter() - began)

    def _identify(self, scope: Scope) -> None:
        """Note the caller of a request. Errors: those of the guard and of `_caller`."""
        self._guard.check(scope["method"], scope["headers"])
        caller = scope[CALLER] = self._caller(scope)
        scope[WHO] = "http" if self._tokens is None else caller.who

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self._router.find(scope["raw_path"].partition(b"?")[0])
        if match is None:
            raise NotFound(f"There is nothing at {scope['path']}.", hint="GET /openapi.json lists every address.")
        routes = match.address.routes(scope["method"])
        if not routes:
            scope[_ROUTE] = match.address.path
            await self._without(match.address, scope, receive, send)
            return
        call = self._admitted(match, routes, scope, receive)
        assert call.route is not None
        response = await call.route.handler(call)
        await response(scope, receive, send)

    def _admitted(self, match: Match, routes: list[Route], scope: Scope, receive: Receive) -> Call:
        """The call of a request with its route and its parameters. Errors: `Forbidden`, `BadInput`."""
        scope[_ROUTE] = match.address.path
        call = Call(scope, receive, match.variables, self._max_body)
        route = call.route = call.choose(routes)
        if scope[CALLER].role < route.operation.role:
            needed = route.operation.role.name.lower()
            raise Forbidden(f"The token's role may not {route.operation.method} here.", hint=f"Use a token of the role {needed}.")
        query, ticket = take_ticket(scope["query_string"])
        if ticket is not None and route.operation.kind != "stream":
            raise Forbidden("A ticket opens streams alone.", hint="Send a token: Authorization: Bearer TOKEN.")
        call.query = route.shape.read_query(query)
        check_rules(scope[CALLER].rules, route.operation, call.path, call.query)
        return call

    async def _without(self, address: Address, scope: Scope, receive: Receive, send: Send) -> None:
        """The answer for a method that an address does not have."""
        scope[ALLOW] = address.allow
        if scope["method"] != "OPTIONS":
            raise BadMethod(f"{scope['path']} has no {scope['method']}.", hint=f"It takes {address.allow}.")
        await Response(status_code=204, headers={"Allow": address.allow})(scope, receive, send)

    def _caller(self, scope: Scope) -> Caller:
        """The caller of a request. Errors: `Denied` without a known token or ticket, `Forbidden` beyond the token's prefixes."""
        if self._tokens is None:
            return OWNER
        if scope["path"] in self._open:
            return ANYBODY
        authorization = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"), None)
        path = scope["raw_path"].partition(b"?")[0]
        ticket = None if authorization is not None else take_ticket(scope["query_string"]).ticket
        caller = self._tokens.caller(authorization) if ticket is None else self._tokens.holder(ticket, path)
        if not caller.reaches(path) and not is_job(path) and path != TICKETS.encode():
            raise beyond_prefixes()
        return caller

    def hot_problem(self, error: Exception) -> tuple[int, bytes]:
        """The answer for a failed hot request: its status, and the bytes after the headers that all answers share."""
        response = self._answer(error, {})
        head = b"".join(b"%b: %b\r\n" % pair for pair in response.raw_headers)
        return response.status_code, b"%b\r\n%b" % (head, bytes(response.body))

    def _answer(self, error: Exception, scope: Scope) -> Response:
        error_id = self._ids()
        if not isinstance(error, HeadwaterError):
            self._report(error_id, error)
            error = HeadwaterError("Something in headwater went wrong that should not.", hint=f"Its log says more under {error_id}.")
        elif error.status >= 500:
            self._report(error_id, error)
        headers = {"Allow": scope[ALLOW]} if isinstance(error, BadMethod) and ALLOW in scope else None
        return problem_answer(error, error_id, headers)
