"""Whatever is sent, the answer is a problem that says what to do, and nothing has changed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headwater.server.spawned import SpawnedServer

JSON = {"Content-Type": "application/json"}
RECORDS = "/log/here/0/records"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpawnedServer]:
    data = tmp_path_factory.mktemp("input")
    (data / "headwater.toml").write_text('[server]\nmax_body = "64KiB"\n[log]\nmax_record = "1KiB"\n')
    with SpawnedServer(data, options=("--port", "0", "--config", str(data / "headwater.toml"))) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: SpawnedServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        assert client.put("/log/here", content=b'{"partitions": 2}').status_code == 201
        assert client.post(RECORDS, content=b'[{"value": 0}, {"value": 1}, {"value": 2}]').status_code == 201
        assert client.delete(RECORDS, params={"before": 1}).json() == {"start": 1}
        yield client


def problem(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), response.text
    body: dict[str, Any] = response.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["detail"].endswith(".")
    assert body["hint"]
    assert len(body["errorId"]) == 32
    return body


CASES = [
    # addresses and methods
    ("GET", "/nothing", {}, 404, "not-found", "/openapi.json"),
    ("GET", "/log/", {}, 404, "not-found", "/openapi.json"),
    ("GET", "/.//log", {}, 404, "not-found", "/openapi.json"),
    ("GET", "/log/here/0/records/5", {}, 404, "not-found", "/openapi.json"),
    ("GET", "/log/a%2Fb/0/records/x", {}, 404, "not-found", "/openapi.json"),
    ("PATCH", "/log", {}, 405, "bad-method", "GET"),
    ("FROB", "/log", {}, 405, "bad-method", "GET"),
    ("POST", "/healthz", {}, 405, "bad-method", "GET"),
    ("PUT", RECORDS, {"content": b"{}"}, 405, "bad-method", "POST"),
    # names
    ("GET", "/log/none", {}, 404, "unknown-topic", "PUT /log/none"),
    ("GET", "/log/none/0", {}, 404, "unknown-topic", "PUT /log/none"),
    ("GET", "/log/none/0/records", {}, 404, "unknown-topic", "PUT /log/none"),
    ("POST", "/log/none/0/records", {"content": b'{"value": 1}'}, 404, "unknown-topic", "PUT /log/none"),
    ("DELETE", "/log/none", {}, 404, "unknown-topic", "GET /log"),
    ("DELETE", "/log/none/0/records?before=0", {}, 404, "unknown-topic", "GET /log"),
    ("POST", "/log/none/0/compact", {}, 404, "unknown-topic", "GET /log"),
    ("GET", "/log/none/0/offset?at=0", {}, 404, "unknown-topic", "GET /log"),
    ("PUT", "/log/spa%20ce", {}, 400, "bad-input", "letters, digits"),
    ("GET", "/log/sp%00ce", {}, 400, "bad-input", "letters, digits"),
    ("PUT", "/log/" + "x" * 250, {}, 400, "bad-input", "letters, digits"),
    ("GET", "/log/here/2", {}, 404, "unknown-partition", "here"),
    ("GET", "/log/here/2/records", {}, 404, "unknown-partition", "here"),
    ("POST", "/log/here/2/records", {"content": b'{"value": 1}'}, 404, "unknown-partition", "here"),
    ("GET", "/log/here/x", {}, 400, "bad-input", "/0"),
    ("GET", "/log/here/-1/records", {}, 400, "bad-input", "/0"),
    ("GET", "/log/here/99999999999999999999", {}, 400, "bad-input", "/0"),
    # parameters
    ("GET", RECORDS + "?form=1", {}, 400, "bad-input", "Did you mean 'from'?"),
    ("GET", RECORDS + "?from=x", {}, 400, "bad-input", "from="),
    ("GET", RECORDS + "?from=-1", {}, 400, "bad-input", "from 0"),
    ("GET", RECORDS + "?from=0", {}, 410, "offset-gone", "offset 1"),
    ("GET", RECORDS + "?from=4", {}, 422, "bad-bounds", "1 to 3"),
    ("GET", RECORDS + "?from=2&to=1", {}, 422, "bad-bounds", "lower one"),
    ("GET", RECORDS + "?limit=0", {}, 400, "bad-input", "1 to 10000"),
    ("GET", RECORDS + "?limit=1&limit=2", {}, 400, "bad-input", "once"),
    ("GET", RECORDS + "?decode=xml", {}, 400, "bad-input", "text, json, hex, binary"),
    ("GET", RECORDS + "?after=3", {}, 422, "bad-bounds", "1 to 3"),
    ("GET", RECORDS + "?from=%FF", {}, 400, "bad-input", "UTF-8"),
    ("GET", "/log?limit=5000", {}, 400, "bad-input", "1 to 1000"),
    ("GET", "/healthz?x=1", {}, 400, "bad-input", "none"),
    ("GET", "/log/here/0/offset", {}, 400, "bad-input", "?at="),
    ("GET", "/log/here/0/offset?at=", {}, 400, "bad-input", "T12:00"),
    ("GET", RECORDS + "?from=1.5", {}, 400, "bad-input", "from="),
    ("GET", RECORDS, {"headers": {"Last-Event-ID": "x"}}, 400, "bad-input", "last event"),
    ("POST", "/log/here/0/compact?before=9", {}, 422, "bad-bounds", "3"),
    ("PUT", "/log/new", {"content": b'{"settings": {"segment": ""}}'}, 400, "bad-input", "unit"),
    ("PUT", "/log/new", {"content": b'{"partitions": 1.5}'}, 400, "bad-input", "whole number"),
    ("GET", "/log/here/0/offset?at=noon", {}, 400, "bad-input", "T12:00"),
    ("DELETE", RECORDS, {}, 400, "bad-input", "?before="),
    ("DELETE", RECORDS + "?before=9", {}, 422, "bad-bounds", "3"),
    ("POST", "/log/here/0/compact?before=x", {}, 400, "bad-input", "before="),
    # streams
    ("GET", RECORDS + "?limit=5", {"headers": {"Accept": "text/event-stream"}}, 400, "bad-input", "Leave it out"),
    ("GET", RECORDS + "?from=0", {"headers": {"Accept": "text/event-stream"}}, 410, "offset-gone", "offset 1"),
    ("GET", RECORDS + "?from=9", {"headers": {"Accept": "text/event-stream"}}, 422, "bad-bounds", "1 to 3"),
    ("GET", RECORDS, {"headers": {"Accept": "text/event-stream", "Last-Event-ID": "x"}}, 400, "bad-input", "last event"),
    ("GET", "/log/none/0/records", {"headers": {"Accept": "text/event-stream"}}, 404, "unknown-topic", "PUT /log/none"),
    ("GET", RECORDS + "?from=0", {"headers": {"Accept": "application/x-ndjson"}}, 410, "offset-gone", "offset 1"),
    # bodies
    ("POST", RECORDS, {"content": b""}, 400, "bad-input", "openapi"),
    ("POST", RECORDS, {"content": b"{}"}, 400, "bad-input", "neither key nor value"),
    ("POST", RECORDS, {"content": b'[{"value": 1}, {"op": 1}]'}, 400, "bad-input", "neither key nor value"),
    ("POST", RECORDS, {"content": b'{"value": 1, "timestamp": 1.5}'}, 400, "bad-input", "whole number"),
    ("POST", RECORDS, {"content": b"[]"}, 400, "bad-input", "at least one"),
    ("POST", RECORDS, {"content": b"\n\n", "headers": {"Content-Type": "application/x-ndjson"}}, 400, "bad-input", "at least one"),
    ("POST", RECORDS, {"content": b"nonsense"}, 400, "bad-input", "openapi"),
    ("POST", RECORDS, {"content": b'{"vlaue": 1}'}, 400, "bad-input", "Did you mean 'value'?"),
    ("POST", RECORDS, {"content": b'{"value": "\xff"}'}, 400, "bad-input", "$binary"),
    ("POST", RECORDS, {"content": b'{"value":' + b"[" * 30_000 + b"]" * 30_000 + b"}"}, 400, "bad-input", "$binary"),
    ("POST", RECORDS, {"content": b'{"value": {"$binary": "?"}}'}, 400, "bad-input", "alphabet"),
    ("POST", RECORDS, {"content": b'[{"value": 1}, {"op": 9}]'}, 400, "bad-input", "0 to 7"),
    ("POST", RECORDS, {"content": b'{"value": 1, "timestamp": -5}'}, 400, "bad-input", "0"),
    ("POST", RECORDS, {"content": b'{"value": 1, "headers": {"' + b"n" * 70_000 + b'": "v"}}'}, 413, "too-large", "max_body"),
    ("POST", RECORDS, {"content": b'{"value": "' + b"x" * 2000 + b'"}'}, 413, "too-large", "log.max_record"),
    ("POST", RECORDS, {"content": b'{"value": "' + b"x" * 70_000 + b'"}'}, 413, "too-large", "max_body"),
    ("POST", RECORDS, {"data": {"value": "1"}}, 415, "bad-type", "Content-Type: application/json"),
    ("POST", RECORDS, {"files": {"value": b"1"}}, 415, "bad-type", "Content-Type: application/json"),
    ("POST", RECORDS, {"content": b"<a/>", "headers": {"Content-Type": "text/xml"}}, 415, "bad-type", "Content-Type: application/json"),
    ("POST", RECORDS, {"content": b"{}", "headers": {"Idempotency-Key": "k"}}, 400, "unsupported", "read what is there"),
    ("PUT", "/log/new", {"content": b'{"partitions": 0}'}, 400, "bad-input", "1 to 4096"),
    ("PUT", "/log/new", {"content": b'{"partitions": 5000}'}, 400, "bad-input", "1 to 4096"),
    ("PUT", "/log/new", {"content": b'{"settings": {"segment": "1000"}}'}, 400, "bad-input", "unit"),
    ("PUT", "/log/new", {"content": b'{"settings": {"segmnt": "1MiB"}}'}, 400, "bad-input", "segment"),
    ("PUT", "/log/new", {"data": {"partitions": "1"}}, 415, "bad-type", "Content-Type: application/json"),
    ("PUT", "/log/here", {"content": b'{"partitions": 3}'}, 409, "already-exists", "never changes"),
    ("PUT", "/log/here", {"content": b'{"partitions": 2, "settings": {"segment": "1MiB"}}'}, 409, "already-exists", "here"),
    # other sites
    ("GET", "/log", {"headers": {"Host": "evil.example"}}, 403, "forbidden", "token file"),
    ("POST", RECORDS, {"content": b"{}", "headers": {"Origin": "http://evil.example"}}, 403, "forbidden", "program"),
    ("DELETE", "/log/here", {"headers": {"Sec-Fetch-Site": "cross-site"}}, 403, "forbidden", "program"),
    ("DELETE", "/log/here", {"headers": {"Origin": "http://[::1"}}, 403, "forbidden", "program"),
    ("DELETE", "/log/here", {"headers": {"Origin": "http://[x]"}}, 403, "forbidden", "program"),
    ("DELETE", "/log/here", {"headers": {"Origin": "null"}}, 403, "forbidden", "program"),
    ("GET", "/log", {"headers": {"Host": "[::1"}}, 403, "forbidden", "token file"),
    ("GET", "/log", {"headers": {"Host": b"\xff\xb2"}}, 403, "forbidden", "token file"),
    ("GET", "/log/%FF", {}, 400, "bad-input", "letters, digits"),
    ("GET", RECORDS, {"headers": {"Accept": "text/event-stream", "Last-Event-ID": b"\xb2"}}, 400, "bad-input", "last event"),
    ("GET", RECORDS, {"headers": {"Accept": "text/event-stream", "Last-Event-ID": "9" * 5000}}, 400, "bad-input", "last event"),
    ("POST", RECORDS, {"content": b"{}", "headers": {"Content-Type": b"\xff"}}, 415, "bad-type", "Content-Type: application/json"),
]


@pytest.mark.parametrize(("method", "path", "parts", "status", "code", "hint"), CASES)
def test_bad_input_is_a_problem(
    http: httpx2.Client, method: str, path: str, parts: dict[str, Any], status: int, code: str, hint: str
) -> None:
    before = http.get("/log").json(), http.get("/log/here").json()
    body = problem(http.request(method, path, **parts), status, code)
    assert hint in body["detail"] + body["hint"]
    assert (http.get("/log").json(), http.get("/log/here").json()) == before


def test_a_body_without_a_length_is_stopped_at_the_limit(http: httpx2.Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 10_000

    problem(http.post(RECORDS, content=endless()), 413, "too-large")


def test_a_client_that_sends_far_too_much_still_sees_the_answer(http: httpx2.Client) -> None:
    problem(http.post(RECORDS, content=bytes(100 << 20)), 413, "too-large")
    assert http.get("/healthz").status_code == 200


def test_a_method_that_is_not_there_comes_with_those_that_are(http: httpx2.Client) -> None:
    assert http.request("PATCH", RECORDS).headers["allow"] == "DELETE, GET, HEAD, OPTIONS, POST"
    options = http.options(RECORDS)
    assert (options.status_code, options.headers["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, POST")


def test_head_is_get_without_its_body(http: httpx2.Client) -> None:
    response = http.head(RECORDS)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-length"] == str(len(http.get(RECORDS).content))


@pytest.mark.parametrize(
    "raw",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /log HTTP/1.1\r\n\r\n",
        b"GET /log?\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET log HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_hardly_http_is_refused_and_the_server_lives(server: SpawnedServer, http: httpx2.Client, raw: bytes) -> None:
    address = httpx2.URL(server.url)
    with socket.create_connection((address.host, address.port or 80), timeout=120) as connection:
        connection.sendall(raw)
        assert connection.recv(1000).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
    assert http.get("/healthz").status_code == 200


def test_a_client_that_leaves_in_the_middle_of_its_body_does_no_harm(server: SpawnedServer, http: httpx2.Client) -> None:
    address = httpx2.URL(server.url)
    with socket.create_connection((address.host, address.port or 80), timeout=120) as connection:
        connection.sendall(b"POST /log/here/1/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
    assert http.get("/log/here/1").json() == {"partition": 1, "start": 0, "end": 0}


def test_no_bad_input_is_a_fault_of_the_server(server: SpawnedServer, http: httpx2.Client) -> None:
    """Nothing that this process has sent before may have been answered with 500, or logged as a fault."""
    problem(http.post(RECORDS, content=b"{"), 400, "bad-input")  # the other cases may have run in another process, with its own server
    counts = http.get("/metrics").text
    assert 'status="400"' in counts
    assert 'status="500"' not in counts
    assert "Traceback" not in server.errors()


def test_the_directory_is_left_as_it_was_found(server: SpawnedServer) -> None:
    assert sorted(path.name for path in (Path(server.data) / "log").iterdir() if path.is_dir()) == ["here"]
