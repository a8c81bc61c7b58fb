"""A server that answers what a test tells it, over a real socket; and an application behind one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qsl

from headwater.core.metrics import HttpMetrics
from headwater.core.settings import ServerSettings
from headwater.server.app import App
from headwater.server.connections import Connections, Limits
from headwater.server.http_server import HttpServer
from headwater.testing.sockets import listening


class ScriptedRequest(NamedTuple):
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def params(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2]))


class ScriptedAnswer(NamedTuple):
    """What to answer. With `pieces` the body comes without a length, and ends with the connection; `meanwhile` happens before that."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    pieces: Sequence[bytes] = ()
    meanwhile: Callable[[], None] | None = None

    def written(self) -> bytes:
        head = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        if not self.pieces and self.status not in (204, 304):
            head += f"Content-Length: {len(self.body)}\r\n"
        return f"HTTP/1.1 {self.status} X\r\n{head}\r\n".encode() + (self.body if self.status not in (204, 304) else b"")


Script = Callable[[ScriptedRequest], ScriptedAnswer | bytes | None]
"""None: end the connection without an answer. Bytes: send them as they are, and end it."""


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[str]:
    """The address of a server that answers as the script says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None and await _answered(script(request), writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def _read(reader: asyncio.StreamReader) -> ScriptedRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return ScriptedRequest(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _answered(answer: ScriptedAnswer | bytes | None, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection goes on."""
    if not isinstance(answer, ScriptedAnswer):
        writer.write(answer or b"")
        await writer.drain()
        return False
    writer.write(answer.written())
    for piece in answer.pieces:
        writer.write(piece)
        await writer.drain()
    if answer.meanwhile is not None:
        answer.meanwhile()
        writer.transport.abort()
    return not answer.pieces


@asynccontextmanager
async def served(app: App, *, limits: Limits | None = None) -> AsyncIterator[str]:
    """The address of a server of ours over an application."""
    connections = Connections(limits or Limits.of(ServerSettings(), descriptors=1000), HttpMetrics())
    http = HttpServer(app, connections=connections, ids=lambda: "id", grace=1, hot=app.hot)
    async with listening(http) as (host, port):
        yield f"http://{host}:{port}"
