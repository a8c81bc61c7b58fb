"""Where a request comes from, as the audit tells it."""

from __future__ import annotations

import asyncio
import getpass
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater import parts
from headwater.core.unix_socket import listen_unix
from headwater.server.caller import FORWARDED, is_job, origin_of
from headwater.server.connection import CONNECTION
from headwater.server.forward import Forwarding
from headwater.server.route import Route
from headwater.server.team import Team

pytestmark = pytest.mark.anyio


def over(sock: socket.socket | None, headers: list[tuple[bytes, bytes]] | None = None, client: object = None) -> dict[str, Any]:
    """The scope of a request over a connection."""
    transport = SimpleNamespace(get_extra_info=lambda name: sock if name == "socket" else None)
    return {"client": client, "headers": headers or [], "state": {CONNECTION: SimpleNamespace(transport=transport)}}


def test_over_a_port_it_is_the_address_whatever_a_header_says() -> None:
    forged = [(FORWARDED, b"10.0.0.1"), (b"x-forwarded-for", b"10.0.0.1")]
    assert origin_of(over(None, forged, ("192.0.2.7", 4711))) == "192.0.2.7"


def test_over_a_unix_socket_it_is_the_user_at_its_other_end() -> None:
    near, far = socket.socketpair(socket.AF_UNIX)
    with near, far:
        assert origin_of(over(near)) == f"user {getpass.getuser()}"
        assert origin_of(over(near, [(b"x-forwarded-for", b"10.0.0.1")])) == f"user {getpass.getuser()}"


def test_what_a_worker_forwards_keeps_its_origin() -> None:
    near, far = socket.socketpair(socket.AF_UNIX)
    with near, far:
        assert origin_of(over(near, [(FORWARDED, b"192.0.2.7")])) == "192.0.2.7"


async def test_a_worker_tells_the_owner_where_a_request_came_from(tmp_path: Path) -> None:
    heads: list[bytes] = []

    async def owner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def receive() -> dict[str, Any]:
        if not received:
            received.append(True)
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    received: list[bool] = []
    sent: list[Any] = []
    scope = over(None, [(b"prefer", b"respond-async"), (FORWARDED, b"forged")], ("192.0.2.7", 4711))
    scope |= {"method": "GET", "raw_path": b"/pipelines", "query_string": b""}
    team = Team(tmp_path, slot=1, size=2)
    team.folder.mkdir()
    routes = [Route(operation, None) for operation in parts.operations()]  # type: ignore[arg-type]
    sock = listen_unix(team.folder, team.socket(0).name)
    assert sock is not None
    async with await asyncio.start_unix_server(owner, sock=sock):
        admitting = SimpleNamespace(admits=lambda scope, receive: True)
        forwarding = Forwarding(admitting, routes, team=team, backend=None, max_body=100)  # type: ignore[arg-type]
        await forwarding(scope, receive, send)
        forwarding.close()
    assert sent[0]["status"] == 204
    assert b"headwater-forwarded-for: 192.0.2.7\r\n" in heads[0]
    assert b"forged" not in heads[0]


def test_one_job_is_known_by_its_path() -> None:
    assert is_job(b"/jobs/x1")
    assert is_job(b"/%6aobs/x1")
    for other in (b"/jobs", b"/jobs/", b"/jobs/..", b"/jobs/.", b"/jobs/x/y", b"/wal/x1", b"/"):
        assert not is_job(other)
