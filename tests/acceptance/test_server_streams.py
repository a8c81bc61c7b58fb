"""Streams whose clients take nothing: they cost little, are in nobody's way, and end with the server."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from pipeline_home import wait_until

from headwater.server.spawned import SpawnedServer

EVENTS = b"text/event-stream"
LINES = b"application/x-ndjson"
MEGABYTE = 1 << 20


def stuck(server: SpawnedServer, accept: bytes = EVENTS) -> socket.socket:
    """A client that asks for everything and reads nothing."""
    address = httpx2.URL(server.url)
    client = socket.create_connection((address.host, address.port or 80), timeout=120)
    path = b"/log/large/0/records?from=0&decode=binary" + (b"" if accept == EVENTS else b"&limit=1000")
    client.sendall(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: %b\r\n\r\n" % (path, accept))
    return client


def fill(server: SpawnedServer, records: int, size: int, *, batch: int = 1) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        assert http.put("/log/large").status_code == 201
        for _ in range(0, records, batch):
            assert http.post("/log/large/0/records", json=[{"value": "x" * size}] * batch).status_code == 201


def number(server: SpawnedServer, name: str) -> float:
    text = httpx2.get(server.url + "/metrics", trust_env=False, timeout=60).text
    return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("accept", [EVENTS, LINES])
def test_a_stuck_reader_of_large_records_takes_little_memory(tmp_path: Path, clients: ExitStack, accept: bytes) -> None:
    count = 20
    with SpawnedServer(tmp_path) as server:
        fill(server, 12, MEGABYTE)
        before = number(server, "process_resident_memory_bytes")
        for _ in range(count):
            clients.enter_context(stuck(server, accept))
        wait_until(lambda: number(server, "headwater_http_streams") == count)
        for _ in range(20):  # each has been given what it will be given: they run while this is asked
            assert httpx2.get(server.url + "/healthz", trust_env=False, timeout=60).status_code == 200
        assert number(server, "process_resident_memory_bytes") - before < count * 8 * MEGABYTE


def test_hundreds_of_streams_with_a_backlog_leave_others_their_answers(tmp_path: Path, clients: ExitStack) -> None:
    with SpawnedServer(tmp_path) as server:
        fill(server, 20_000, 1000, batch=1000)
        for number_of in range(300):
            clients.enter_context(stuck(server))
            if number_of % 30 == 0:
                assert httpx2.get(server.url + "/healthz", trust_env=False, timeout=120).status_code == 200
        wait_until(lambda: number(server, "headwater_http_streams") == 300)


def test_streams_have_a_limit_and_make_room(tmp_path: Path, clients: ExitStack) -> None:
    with SpawnedServer(tmp_path, environ={**os.environ, "HEADWATER_SERVER__MAX_STREAMS": "2"}) as server:
        fill(server, 1, 10)
        first = stuck(server)
        clients.enter_context(stuck(server))
        wait_until(lambda: number(server, "headwater_http_streams") == 2)
        for accept in (EVENTS, LINES):
            refused = httpx2.get(server.url + "/log/large/0/records", headers={"Accept": accept.decode()}, trust_env=False)
            assert (refused.status_code, refused.headers["retry-after"], refused.json()["code"]) == (503, "5", "busy")
        assert httpx2.get(server.url + "/log/large/0/records", trust_env=False).status_code == 200
        assert number(server, "headwater_http_streams_refused_total") == 2
        first.close()
        wait_until(lambda: number(server, "headwater_http_streams") == 1)
        clients.enter_context(stuck(server))
        wait_until(lambda: number(server, "headwater_http_streams") == 2)


def test_a_client_that_takes_nothing_is_cut_off(tmp_path: Path, clients: ExitStack) -> None:
    with SpawnedServer(tmp_path, environ={**os.environ, "HEADWATER_SERVER__SEND_TIMEOUT": "300ms"}) as server:
        fill(server, 12, MEGABYTE)
        for accept in (EVENTS, LINES, b"application/json"):
            clients.enter_context(stuck(server, accept))
        wait_until(lambda: number(server, 'headwater_http_refused_total{reason="send-time"}') == 3)
        wait_until(lambda: number(server, 'headwater_http_streams_ended_total{reason="left"}') == 2)
        assert "Traceback" not in server.errors()


def test_stuck_streams_do_not_hold_up_the_stop(tmp_path: Path, clients: ExitStack) -> None:
    with SpawnedServer(tmp_path, environ={**os.environ, "HEADWATER_SERVER__STOP_GRACE": "10m"}) as server:
        fill(server, 12, MEGABYTE)
        for accept in (EVENTS, LINES, b"application/json"):
            clients.enter_context(stuck(server, accept))
        wait_until(lambda: number(server, "headwater_http_streams") == 2)
        server.signal(signal.SIGTERM)
        assert server.wait(240) == 0
        assert "Traceback" not in server.errors()
