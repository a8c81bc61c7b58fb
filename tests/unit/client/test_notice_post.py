"""Notices are posted to addresses of users."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headwater.client import notice_post
from headwater.client.notice_post import post_notice
from headwater.core.errors import Unavailable

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that reads one request of each connection, and answers; None: never."""
    requests = list[bytes]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return  # the client has given up before it sent anything
        size = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        requests.append(head + await reader.readexactly(size))
        if answer is not None:
            writer.write(answer)
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/dead?x=1", requests
    finally:
        server.close()


async def test_a_notice_is_posted_as_json_with_its_name_and_nobody_logs_the_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (address, requests):
        await post_notice(address.replace("//", "//me:word@"), b'{"event":"dead"}', "dead-pages-1-7")
    assert "x=1" not in caplog.text
    assert b"authorization: basic bwu6d29yza==" in requests[0].lower()
    [request] = requests
    assert request.startswith(b"POST /dead?x=1 HTTP/1.1\r\n")
    assert b"\r\n\r\n" + b'{"event":"dead"}' in request
    assert b"idempotency-key: dead-pages-1-7" in request.lower()
    assert b"content-type: application/json" in request.lower()


@pytest.mark.parametrize("line", [b"302 Found\r\nLocation: http://127.0.0.1:1/", b"400 Bad Request", b"503 Service Unavailable"])
async def test_another_status_than_one_of_the_200s_is_a_failure(line: bytes) -> None:
    async with answering(b"HTTP/1.1 " + line + b"\r\nContent-Length: 0\r\n\r\n") as (address, _):
        with pytest.raises(Unavailable, match="status"):
            await post_notice(address, b"{}", "n")


async def test_an_address_that_says_nothing_or_is_not_there_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(None) as (address, _):
        with monkeypatch.context() as patched, pytest.raises(Unavailable):
            patched.setattr(notice_post, "_PATIENCE", 0.05)
            await post_notice(address, b"{}", "n")
    with pytest.raises(Unavailable, match="cannot be reached"):
        await post_notice(address, b"{}", "n")
