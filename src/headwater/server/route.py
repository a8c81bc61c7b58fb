"""Routing: matches the raw path segment by segment and decodes each segment once, so that `a%2Fb` is one id.

A variable may take several segments (`Segments` of `headwater.wire.parameter`). They are joined with slashes; a slash that is encoded
inside of one of them stays `%2F`, so that no two addresses name the same thing unless the variable is a collection's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from headwater.wire.operation import Operation
from headwater.wire.parameter import Segments
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


class _Variable(NamedTuple):
    name: str
    segments: Segments
    node: _Node


class _Node:
    __slots__ = ("address", "fixed", "named")

    def __init__(self) -> None:
        self.fixed: dict[bytes, _Node] = {}
        self.named: _Variable | None = None
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
        segments = raw_path[1:].split(b"/") if raw_path != b"/" else []
        at = 0
        while at < len(segments):
            segment = segments[at]
            decoded = unquote_to_bytes(segment) if b"%" in segment else segment
            fixed, named = node.fixed.get(decoded), node.named
            if fixed is not None:
                node, at = fixed, at + 1
                continue
            if named is None:
                return None
            if named.segments == "one":
                if not decoded:
                    return None
                value, at = decoded, at + 1
            elif named.segments == "rest":
                value, at = _joined(segments[at:]), len(segments)
            else:
                value, at = _collection(segments, at)
            variables[named.name] = value.decode("utf-8", "replace")  # not UTF-8: the check of names reports it
            node = named.node
        return None if node.address is None else Match(node.address, variables)

    def _add(self, route: Route) -> None:
        node, path = self._root, route.operation.path
        for segment in path[1:].split("/") if path != "/" else ():
            if segment.startswith("{"):
                name = segment[1:-1]
                if node.named is None:
                    node.named = _Variable(name, route.shape.path[name].segments, _Node())
                if node.named.name != name:
                    raise ValueError(f"{path} names {name} what another path names {node.named.name}")
                node = node.named.node
            else:
                node = node.fixed.setdefault(segment.encode(), _Node())
        node.address = node.address or Address(path)
        node.address.add(route)


def _joined(segments: list[bytes]) -> bytes:
    """Several segments, each decoded once, with slashes between them."""
    joined = b"/".join(segments)
    if b"%" not in joined:
        return joined
    return b"/".join(unquote_to_bytes(segment).replace(b"/", b"%2F") for segment in segments)


def _collection(segments: list[bytes], at: int) -> tuple[bytes, int]:
    """The path of a collection from a segment on, and where it ends."""
    ends = [number for number in range(at, len(segments)) if unquote_to_bytes(segments[number]).endswith(b"~")]
    if not ends or ends[-1] == at:
        return unquote_to_bytes(segments[at]), at + 1
    return _joined(segments[at : ends[-1] + 1]), ends[-1] + 1
