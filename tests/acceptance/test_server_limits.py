"""Strangers at the server's port: each is answered or cut off, counted, and in nobody's way."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx2
import pytest

from headwater.server.spawned import SpawnedServer

HOST = b"Host: 127.0.0.1\r\n"
SHORT = {
    "HEADWATER_SERVER__HEADER_TIMEOUT": "200ms",
    "HEADWATER_SERVER__BODY_TIMEOUT": "200ms",
    "HEADWATER_SERVER__MAX_CONNECTIONS_PER_ADDRESS": "20",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpawnedServer]:
    with SpawnedServer(tmp_path_factory.mktemp("limits"), environ={**os.environ, **SHORT}) as running:
        yield running


def connect(server: SpawnedServer) -> socket.socket:
    address = httpx2.URL(server.url)
    return socket.create_connection((address.host, address.port or 80), timeout=120)


def resident(server: SpawnedServer) -> int:
    """Bytes of memory."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def refused(server: SpawnedServer) -> str:
    text = httpx2.get(server.url + "/metrics", trust_env=False).text
    return "\n".join(line for line in text.splitlines() if line.startswith("headwater_http_refused_total"))


def dripped(connection: socket.socket, drop: bytes) -> bytes:
    """What comes back while bytes are sent one by one, until the server ends it."""
    answer = b""
    connection.settimeout(0.02)
    for _ in range(1500):
        try:
            connection.sendall(drop)
        except OSError:
            drop = b""
        try:
            data = connection.recv(4096)
        except TimeoutError:
            continue
        except ConnectionResetError:
            return answer
        if not data:
            return answer
        answer += data
    raise AssertionError("The server holds the connection.")


def test_an_endless_header_line_takes_no_memory(server: SpawnedServer) -> None:
    before = resident(server)
    with connect(server) as stranger:
        stranger.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: ")
        try:
            for _ in range(48):
                stranger.sendall(b"a" * (1 << 20))
            assert stranger.recv(100).startswith(b"HTTP/1.1 431 ")
        except ConnectionError:
            pass  # cut before all of it was sent
    assert resident(server) - before < 16 << 20
    assert 'reason="header-size"' in refused(server)


def test_pipelined_requests_without_end_take_no_memory(server: SpawnedServer) -> None:
    before = resident(server)
    with connect(server) as stranger:
        stranger.settimeout(0.5)
        try:
            for _ in range(50):
                stranger.sendall((b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n") * 5000)
        except OSError:
            pass
    assert resident(server) - before < 32 << 20
    assert httpx2.get(server.url + "/healthz", trust_env=False).status_code == 200
    assert 'reason="pipelined"' in refused(server)


@pytest.mark.parametrize(
    ("begun", "drop", "status"),
    [
        (b"", b"", b""),
        (b"", b"\r\n", b"408"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-", b"a", b"408"),
        (b"PUT /log/slow HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n", b" ", b"408"),
        (b"PUT /log/slow HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n0\r\nX: ", b"a", b"408"),
        (b"PUT /nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n", b" ", b"404"),
    ],
    ids=["silent", "empty-lines", "head", "body", "trailer", "body-behind-an-answer"],
)
def test_who_sends_too_slowly_is_answered_or_cut(server: SpawnedServer, begun: bytes, drop: bytes, status: bytes) -> None:
    with connect(server) as stranger:
        stranger.sendall(begun)
        assert dripped(stranger, drop)[9:12] == status
    assert httpx2.get(server.url + "/log/slow", trust_env=False).status_code == 404


def test_a_connection_between_two_requests_is_kept(server: SpawnedServer) -> None:
    address = httpx2.URL(server.url)
    with closing(HTTPConnection(address.host, address.port, timeout=120)) as client:
        client.connect()
        first = client.sock
        for _ in range(2):
            client.request("GET", "/healthz")
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
            with connect(server) as other:  # by the time that this one is cut, the limits have passed for both
                dripped(other, b"")
        assert client.sock is first


def test_an_address_has_so_many_connections_and_no_more(server: SpawnedServer) -> None:
    crowd = [connect(server) for _ in range(60)]
    answers = [dripped(one, b"") for one in crowd]
    for one in crowd:
        one.close()
    full = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503 ")]
    assert len(full) >= 39  # the one that asked for numbers before may still be open
    assert all(b"\r\nretry-after: 5\r\n" in answer for answer in full)
    assert 'reason="connections-per-address"' in refused(server)


def test_strangers_leave_no_traces_of_faults(server: SpawnedServer) -> None:
    """Runs last in this file."""
    assert "Traceback" not in server.errors()
    assert 'status="500"' not in httpx2.get(server.url + "/metrics", trust_env=False).text
