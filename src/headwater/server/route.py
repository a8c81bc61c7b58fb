"""Routing: matches the raw path segment by segment and decodes each segment once, so that `a%2Fb` is one id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from headwater.wire.operation import Operation
from headwater.wire.request import RequestShape, shape_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.server.call import Call
    from headwater.server.hot import HotHandler

Handler = Callable[["Call"], Awaitable["ASGIApp"]]


class Route(NamedTuple):
    """An operation and its handler; `hot`: the handler of the hot path."""

    operation: Operation[Any, Any]
    handler: Handler
    hot: HotHandler | None = None

    @property
    def shape(self) -> RequestShape[Any]:
        return shape_of(self.operation)


class Address:
    """All routes of one path, by method. Routes of the same method differ in the type of their answers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._methods: dict[str, list[Route]] = {}

    def add(self, route: Route) -> None:
        self._methods.setdefault(route.operation.method, []).append(route)

    @property
    def allow(self) -> str:
        """The methods, as the header Allow lists them."""
        read = {"HEAD"} if "GET" in self._methods else set()
        return ", ".join(sorted({*self._methods, *read, "OPTIONS"}))

    def routes(self, method: str) -> list[Route]:
        """The routes of a method; HEAD is GET without its body."""
        return self._methods.get("GET" if method == "HEAD" else method, [])


class Match(NamedTuple):
    """An address, and the values of its variables in a request."""

    address: Address
    variables: dict[str, str]


class _Node:
    __slots__ = ("address", "fixed", "named")

    def __init__(self) -> None:
        self.fixed: dict[bytes, _Node] = {}
        self.named: tuple[str, _Node] | None = None
        self.address: Address | None = None


class Router:
    """Every address of the server."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def find(self, raw_path: bytes) -> Match | None:
        """The address of a raw, still encoded path; None where there is none."""
        node = self._root
        variables: dict[str, str] = {}
        for segment in raw_path[1:].split(b"/") if raw_path != b"/" else ():
            decoded = unquote_to_bytes(segment) if b"%" in segment else segment
            fixed = node.fixed.get(decoded)
            if fixed is not None:
                node = fixed
                continue
            if node.named is None or not decoded:
                return None
            name, node = node.named
            variables[name] = decoded.decode("utf-8", "replace")  # not UTF-8: the check of names reports it
        return None if node.address is None else Match(node.address, variables)

    def _add(self, route: Route) -> None:
        node, path = self._root, route.operation.path
        for segment in path[1:].split("/") if path != "/" else ():
            if segment.startswith("{"):
                name = segment[1:-1]
                if node.named is None:
                    node.named = (name, _Node())
                if node.named[0] != name:
                    raise ValueError(f"{path} names {name} what another path names {node.named[0]}")
                node = node.named[1]
            else:
                node = node.fixed.setdefault(segment.encode(), _Node())
        node.address = node.address or Address(path)
        node.address.add(route)
