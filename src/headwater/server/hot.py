"""The hot path of small frequent requests: from a whole request to the bytes of its answer, without a task, a scope or a response object.

Only requests in the form of our own client take this path. The application handles all others, and every invalid one, so that one place
reports errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, NamedTuple

from headwater.core.errors import HeadwaterError
from headwater.core.metrics import HttpMetrics
from headwater.server.auth import OriginCheck, Tokens
from headwater.server.caller import OWNER, Caller
from headwater.server.route import Route, Router
from headwater.wire.operation import Operation

LARGEST = 64 << 10  # bytes of a body: reading a larger one would keep other requests waiting
_READ = frozenset(
    {b"host", b"authorization", b"content-length", b"content-type", b"user-agent", b"accept", b"accept-encoding", b"connection"}
)
_JSON = (b"", b"*/*", b"application/json")


class HotCall(NamedTuple):
    """A request that may take the hot path. `alone`: its connection has no other request under way."""

    variables: dict[str, str]
    query: bytes
    content_type: bytes
    body: bytes
    alone: bool = False


class HotMatch(NamedTuple):
    """A hot operation, the values of its path variables, and the raw path."""

    route: Route
    variables: dict[str, str]
    raw_path: bytes


class HotAnswer(NamedTuple):
    """A future answer: `encode` makes the body, or the whole reply, from the result of `future`. `forsaken`: called when the client is gone
    before that."""

    future: asyncio.Future[Any]
    encode: Callable[[Any], bytes | HotReply]
    forsaken: Callable[[], object] | None = None


class HotReply(NamedTuple):
    """An answer with headers of its own. `status` 0: the first one of the operation."""

    body: bytes
    headers: bytes
    status: int = 0


HotHandler = Callable[[HotCall], HotAnswer | HotReply | bytes | None]
"""Begins the work, or does it. None: not here and now, let the application do it; then nothing has been done."""


class Pending(NamedTuple):
    """An answer that is being made, is made, or is an error."""

    operation: Operation[Any, Any]
    answer: HotAnswer | HotReply | bytes | Exception
    began: float

    @property
    def ready(self) -> bool:
        return not isinstance(self.answer, HotAnswer) or self.answer.future.done()


class KnownClient(NamedTuple):
    """The checked headers of a connection: a request that repeats them skips the checks, until the token file changes."""

    host: bytes
    authorization: bytes
    generation: int
    caller: Caller


class Admission(NamedTuple):
    """A checked head: its operation, and that its caller may perform it there."""

    match: HotMatch
    content_type: bytes
    client: KnownClient


class HotPath:
    """Begins hot requests, and writes the same answers as the application."""

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        tokens: Tokens | None,
        guard: OriginCheck,
        metrics: HttpMetrics,
        problem: Callable[[Exception], tuple[int, bytes]],
        max_body: int,
    ) -> None:
        """`problem`: the status and the rest of the answer for an error."""
        self.routes = [route for route in routes if route.hot is not None]
        self._router = Router(self.routes)
        self.largest = min(LARGEST, max_body)
        self._tokens, self._guard, self._metrics, self._problem = tokens, guard, metrics, problem

    def find(self, method: str, raw_path: bytes) -> HotMatch | None:
        """The hot operation at an address; None where there is none."""
        match = self._router.find(raw_path)
        if match is None or method == "HEAD" or not (routes := match.address.routes(method)):
            return None
        return HotMatch(routes[0], match.variables, raw_path)

    def admit(self, match: HotMatch, headers: list[tuple[bytes, bytes]], known: KnownClient | None) -> Admission | None:
        """Check the headers of a request; None: the application must handle it. `known`: the client of an earlier request."""
        host = authorization = content_type = accept = b""
        seen_names = set()
        for name, value in headers:
            if name not in _READ or name in seen_names:  # with two of them the application uses one
                return None
            seen_names.add(name)
            if name == b"host":
                host = value
            elif name == b"authorization":
                authorization = value
            elif name == b"content-type":
                content_type = value
            elif name == b"accept":
                accept = value
        if accept not in _JSON:
            return None
        operation = match.route.operation
        if known is None or known.host != host or known.authorization != authorization or known.generation != self._generation:
            client = self._known(operation.method, host, authorization)
            if client is None:
                return None
            known = client
        return Admission(match, content_type, known) if _permitted(match, known) else None

    def readmit(self, admission: Admission, method: str, raw_path: bytes) -> Admission | None:
        """An admission for the same method and headers, at another address; None: the application must handle it."""
        match = self.find(method, raw_path)
        return None if match is None or not _permitted(match, admission.client) else admission._replace(match=match)

    def begin(self, admission: Admission, query: bytes, body: bytes, *, alone: bool) -> Pending | None:
        """Begin an answer. None: the application must handle the request, or the admission is older than the token file."""
        began = time.perf_counter()
        (route, variables, _), content_type, client = admission
        if client.generation != self._generation:
            return None
        assert route.hot is not None
        try:
            answer = route.hot(HotCall(variables, query, content_type, body, alone))
        except Exception as error:
            return Pending(route.operation, error, began)
        return None if answer is None else Pending(route.operation, answer, began)

    def answer(self, pending: Pending, *, head: bytes) -> bytes:
        """The whole answer. `head`: headers that every answer has."""
        operation, answer = pending.operation, pending.answer
        status, headers = next(iter(operation.statuses), 200), b""
        try:
            if isinstance(answer, Exception):
                raise answer
            reply = answer.encode(answer.future.result()) if isinstance(answer, HotAnswer) else answer
            if isinstance(reply, HotReply):
                body, headers, status = reply.body, reply.headers, reply.status or status
            else:
                body = reply
        except asyncio.CancelledError:
            status, written = self._problem(HeadwaterError("The request was given up.", hint="Ask again."))
        except Exception as error:
            status, written = self._problem(error)
        else:
            if not body and 204 in operation.statuses:
                status = 204
            written = (
                b"%b\r\n" % headers
                if status == 204
                else b"%bcontent-length: %d\r\ncontent-type: application/json\r\n\r\n%b" % (headers, len(body), body)
            )
        self._metrics.answered(operation.path, operation.method, status, time.perf_counter() - pending.began)
        return b"%b%b%b" % (_line(status), head, written)

    @property
    def _generation(self) -> int:
        return 0 if self._tokens is None else self._tokens.generation

    def _known(self, method: str, host: bytes, authorization: bytes) -> KnownClient | None:
        try:
            self._guard.check(method, [(b"host", host)] if host else [])
            caller = OWNER if self._tokens is None else self._tokens.caller(authorization.decode("latin-1") or None)
        except HeadwaterError:
            return None  # the application reports it
        return KnownClient(host, authorization, self._generation, caller)


def _permitted(match: HotMatch, client: KnownClient) -> bool:
    caller = client.caller
    if caller.rules is not None:  # the application checks them
        return False
    return caller.role >= match.route.operation.role and (not caller.prefixes or caller.reaches(match.raw_path))


_LINES: dict[int, bytes] = {}


def _line(status: int) -> bytes:
    return _LINES.get(status) or _LINES.setdefault(status, b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode()))
