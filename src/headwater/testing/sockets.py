"""Raw requests to a server of ours, for tests that look at the bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headwater.server.http_server import HttpServer
from headwater.server.listening import listen


@asynccontextmanager
async def listening(server: HttpServer) -> AsyncIterator[tuple[str, int]]:
    """Serve on a free port; gives the address. It begins and ends at once: uvicorn's own way takes a moment for each."""
    sock = listen("127.0.0.1", 0, tokens=False)
    address: tuple[str, int] = sock.getsockname()
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup([sock])
    try:
        yield address
    finally:
        for listener in server.servers:
            listener.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)


async def answers(
    address: tuple[str, int], sent: bytes | Sequence[bytes], count: int, *, half_close: bool = False, one_by_one: bool = False
) -> list[bytes]:
    """What comes back for bytes, answer by answer; fewer where the server ends the connection.

    `one_by_one`: each piece is a request, sent once the one before is answered.
    """
    reader, writer = await asyncio.open_connection(*address)
    replies: list[bytes] = []
    try:
        for piece in [sent] if isinstance(sent, bytes) else sent:
            writer.write(piece)
            await writer.drain()
            if one_by_one and (answer := await _answer(reader)):
                replies.append(answer)
        if half_close:
            writer.write_eof()
        while len(replies) < count and (answer := await _answer(reader)):
            replies.append(answer)
    finally:
        writer.close()
    return replies


def pieces_of(data: bytes, size: int = 7) -> list[bytes]:
    """The same bytes in small pieces."""
    return [data[at : at + size] for at in range(0, len(data), size)]


async def _answer(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    body = await reader.readexactly(int(lines.get(b"content-length", b"0")))
    return head + body
