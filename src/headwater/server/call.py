"""One checked request, for its handler."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from starlette.responses import Response

from headwater.core.errors import BadInput, BadType, TooLarge
from headwater.core.units import Size
from headwater.server.caller import Caller, origin_of
from headwater.server.route import Route
from headwater.wire import json

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

WHO = "headwater.who"
CALLER = "headwater.caller"
ALLOW = "headwater.allow"
"""What the header Allow of a 405 lists."""
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_UNWANTED = re.compile(r"q=0(?:\.0*)?")


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Call:
    """A request whose route, role and parameters have been checked."""

    __slots__ = ("_max_body", "_receive", "path", "query", "route", "scope")

    def __init__(self, scope: Scope, receive: Receive, path: dict[str, str], max_body: int) -> None:
        self.scope, self._receive, self.path, self._max_body = scope, receive, path, max_body
        self.query: dict[str, Any] = {}
        self.route: Route | None = None

    def choose(self, routes: list[Route]) -> Route:
        """Choose the route whose type of answer the client accepts; without a preference the first that answers JSON."""
        if len(routes) > 1:
            for route in routes:
                media = route.operation.media
                follows = media == "text/event-stream" and self.scope["method"] == "HEAD"  # which would never end
                if media != "application/json" and not follows and self.accepts(media):
                    return route
        return routes[0]

    async def request(self) -> Any:
        """The operation's request. Errors: `BadInput`, `BadType`, `TooLarge`."""
        assert self.route is not None
        shape, body = self.route.shape, b""
        if shape.body is not None:
            self.body_kind()
            body = await self.body()
        elif self.scope["method"] not in ("GET", "HEAD") and not self.route.operation.content:
            await self._refuse_body(self.route)
        headers = {
            parameter.name.lower(): value
            for parameter in shape.headers
            if (value := self.header(parameter.name.lower().encode())) is not None
        }
        return shape.read(self.path, self.query, headers, body)

    async def _refuse_body(self, route: Route) -> None:
        """Errors: `BadInput` for a body where none is read: who sends `{"dry_run": true}` would see the change made."""
        if not any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in self.scope["headers"]):
            return
        if (await self.body()).strip() not in (b"", b"{}"):
            names = [f"?{name}=" for name in route.shape.query]
            raise BadInput(
                f"{route.operation.method} {route.operation.path} takes no body.",
                hint=f"Write what it takes into the address: {', '.join(names)}." if names else "Send it without one.",
            )

    def header(self, name: bytes) -> str | None:
        for key, value in self.scope["headers"]:
            if key == name:
                text: str = value.decode("latin-1")
                return text
        return None

    @property
    def who(self) -> str:
        """The caller for the audit: the token's name, or its role where it has none, and where the request came from."""
        return f"{self.scope[WHO]} from {origin_of(self.scope)}"

    @property
    def caller(self) -> Caller:
        """The holder of the token."""
        caller: Caller = self.scope[CALLER]
        return caller

    @property
    def reached(self) -> bool:
        """Whether the address lies below the token's prefixes. Of the others, only jobs get here: their starters may look at them."""
        return self.caller.reaches(self.scope["raw_path"].partition(b"?")[0])

    def accepts(self, kind: str) -> bool:
        """Whether the Accept header names this type, and not with `q=0`."""
        for part in (self.header(b"accept") or "").lower().split(","):
            named, *parameters = (word.strip() for word in part.split(";"))
            if named == kind and not any(_UNWANTED.fullmatch(parameter) for parameter in parameters):
                return True
        return False

    def body_kind(self) -> Literal["json", "lines"]:
        """The form of the body. Without a content type it is JSON, as `curl -T` sends it. Errors: `BadType` with the header to add."""
        kind = (self.header(b"content-type") or "application/json").partition(";")[0].strip().lower()
        if kind in _LINES:
            return "lines"
        if kind == "application/json" or kind.endswith("+json"):
            return "json"
        form = " (curl -d sends that unless told otherwise)" if kind in _FORMS else ""
        raise BadType(f"A body of type {kind} is not read here{form}.", hint="Add the header Content-Type: application/json")

    async def body(self) -> bytes:
        """The whole body. Errors: those of `read_body`."""
        return await read_body(self.scope, self._receive, self._max_body)

    async def gone(self) -> None:
        """Return once the client has closed the connection; for answers that wait for something. Called after `body`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The whole body. Errors: `ClientGone`; `TooLarge` as soon as the size is known. The server then reads and drops the rest: closing the
    connection while the client sends would reset it, and the client would never see the answer.
    """
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if announced.isdigit() and int(announced[:20]) > most:
        raise _too_large(most)
    chunks, length = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        length += len(chunk)
        if length > most:
            raise _too_large(most)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks) if len(chunks) > 1 else chunk


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"The body is larger than {Size(most)}.", hint="Send less at once, or raise `server.max_body` in headwater.toml.")


def json_answer(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response that keeps every digit of a decimal."""
    return Response(json.encode(content), status, headers, "application/json")
