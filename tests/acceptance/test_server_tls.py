"""The server over TLS, with an authority of one's own: clients check its certificate, and a new one is taken without a stop."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from authority import Authority
from forked_program import ForkedProgram
from pipeline_home import wait_until
from program import Program, environment

import headwater
from headwater.client.presence import serving
from headwater.core.errors import BadConfig, Untrusted
from headwater.log.record import Record, Topic
from headwater.server.spawned import SpawnedServer

SHORT = {"HEADWATER_SERVER__HEADER_TIMEOUT": "1s", "HEADWATER_SERVER__MAX_CONNECTIONS_PER_ADDRESS": "20"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def server(tmp_path: Path, authority: Authority) -> Iterator[SpawnedServer]:
    cert, key = authority.certificate("server")
    for file, name in ((cert, "cert.pem"), (key, "key.pem")):
        shutil.copy(file, tmp_path / name)
    (tmp_path / "key.pem").chmod(0o600)
    options = ("--port", "0", "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with SpawnedServer(tmp_path / "data", options=options, environ={**os.environ, **SHORT}) as running:
        yield running


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.file)


def serial(server: SpawnedServer, authority: Authority) -> str:
    """Which certificate the server shows."""
    address = httpx2.URL(server.url)
    with socket.create_connection((address.host, address.port or 443), timeout=120) as plain:
        with trusting(authority).wrap_socket(plain, server_hostname=address.host) as wrapped:
            shown = wrapped.getpeercert()
            assert shown is not None
            return str(shown["serialNumber"])


@pytest.mark.anyio
async def test_everything_goes_through_tls(server: SpawnedServer, authority: Authority) -> None:
    assert server.url.startswith("https://127.0.0.1:")
    wait_until(lambda: f"at {server.url}" in server.output())
    found = serving(server.data)
    assert found is not None
    assert found.url == server.url
    async with headwater.open(server.url, ca=authority.file) as hw:
        await hw.log.create_topic("t")
        await hw.log.append("t", 0, [Record(None, b"x" * 3_000_000), Record(None, b"small")])
        assert [len(record.value or b"") for record in await hw.log.read("t", 0, 0)] == [3_000_000, 5]
        tail = hw.log.tail("t", 0, 0)
        assert (await anext(tail)).offset == 0
        assert (await anext(tail)).value == b"small"


def test_programs_find_it_through_the_directory(
    server: SpawnedServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def topics(**parts: Any) -> list[Topic]:
        with headwater.open_blocking(server.data, **parts) as hw:
            found: list[Topic] = hw.log.topics()
            return found

    monkeypatch.chdir(tmp_path)
    with pytest.raises(Untrusted) as raised:
        topics()
    assert "client.ca_file" in raised.value.hint
    assert topics(ca=str(authority.file)) == []
    (tmp_path / "headwater.toml").write_text(f'[client]\nca_file = "{authority.file}"\n')
    assert topics() == []
    (tmp_path / "headwater.toml").unlink()
    monkeypatch.setenv("HEADWATER_CLIENT__CA_FILE", str(authority.file))
    assert topics() == []


@pytest.mark.anyio
async def test_who_does_not_trust_it_sends_nothing(server: SpawnedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)
    other = Authority(tmp_path / "other")
    for ca in (None, other.file):
        with pytest.raises(Untrusted, match="not trusted here"):
            async with headwater.open(server.url, ca=ca) as hw:
                await hw.log.topics()
        with pytest.raises(Untrusted):
            async with headwater.open(server.url, ca=ca) as hw:
                await anext(hw.log.tail("t", 0, 0))
    with pytest.raises(BadConfig, match="no certificates of authorities"):
        async with headwater.open(server.url, ca=tmp_path / "key.pem"):
            pass


@pytest.mark.anyio
async def test_a_certificate_for_another_name_is_not_trusted(tmp_path: Path, authority: Authority) -> None:
    cert, key = authority.certificate("elsewhere", names="DNS:log.example")
    with SpawnedServer(tmp_path / "data", options=("--port", "0", "--tls-cert", str(cert), "--tls-key", str(key))) as server:
        with pytest.raises(Untrusted, match=r"127\.0\.0\.1"):
            async with headwater.open(server.url, ca=authority.file) as hw:
                await hw.log.topics()


def test_a_changed_certificate_is_taken_and_a_bad_one_is_not(server: SpawnedServer, authority: Authority, tmp_path: Path) -> None:
    first = serial(server, authority)
    with httpx2.Client(base_url=server.url, verify=trusting(authority), trust_env=False, timeout=120) as http:
        assert http.get("/healthz").status_code == 200
        (tmp_path / "cert.pem").write_text("no certificate\n")
        wait_until(lambda: "the certificate of before stays in use" in server.errors())
        assert serial(server, authority) == first
        cert, key = authority.certificate("renewed")
        os.replace(shutil.copy(key, tmp_path / "new.key"), tmp_path / "key.pem")
        os.replace(shutil.copy(cert, tmp_path / "new.pem"), tmp_path / "cert.pem")
        wait_until(lambda: serial(server, authority) != first)
        assert http.get("/healthz").status_code == 200, "the open connection goes on"


def test_a_key_that_was_open_to_all_is_taken_once_it_is_not(server: SpawnedServer, authority: Authority, tmp_path: Path) -> None:
    first = serial(server, authority)
    cert, key = authority.certificate("opened")
    Path(shutil.copy(key, tmp_path / "new.key")).chmod(0o644)
    os.replace(tmp_path / "new.key", tmp_path / "key.pem")
    os.replace(shutil.copy(cert, tmp_path / "new.pem"), tmp_path / "cert.pem")
    wait_until(lambda: "chmod 600" in server.errors())
    assert serial(server, authority) == first
    (tmp_path / "key.pem").chmod(0o600)
    wait_until(lambda: serial(server, authority) != first)


def test_as_many_connections_as_may_be_are_answered(tmp_path: Path, authority: Authority) -> None:
    cert, key = authority.certificate("few")
    options = ("--port", "0", "--tls-cert", str(cert), "--tls-key", str(key))
    environ = {**os.environ, "HEADWATER_SERVER__MAX_CONNECTIONS_PER_ADDRESS": "2"}
    with SpawnedServer(tmp_path / "data", options=options, environ=environ) as server, ExitStack() as stack:
        for _ in range(2):
            client = stack.enter_context(httpx2.Client(base_url=server.url, verify=trusting(authority), trust_env=False, timeout=120))
            assert client.get("/healthz").status_code == 200


def test_strangers_before_the_handshake_are_cut_and_counted(server: SpawnedServer, authority: Authority) -> None:
    address = httpx2.URL(server.url)
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection((address.host, address.port or 443), timeout=120)) for _ in range(40)]
        for stranger in crowd:
            with suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
        plain = stack.enter_context(socket.create_connection((address.host, address.port or 443), timeout=120))
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert not plain.recv(100).startswith(b"HTTP")
    counts = httpx2.get(server.url + "/metrics", verify=trusting(authority), trust_env=False).text
    assert 'headwater_http_refused_total{reason="connections-per-address"} 20.0' in counts
    assert 'headwater_http_refused_total{reason="handshake"} 21.0' in counts
    assert "Traceback" not in server.errors()


def test_limits_hold_inside_of_tls(server: SpawnedServer, authority: Authority) -> None:
    address = httpx2.URL(server.url)
    with socket.create_connection((address.host, address.port or 443), timeout=120) as plain:
        with trusting(authority).wrap_socket(plain, server_hostname=address.host) as stranger:
            stranger.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            assert stranger.recv(1000).startswith(b"HTTP/1.1 408 ")
    with socket.create_connection((address.host, address.port or 443), timeout=120) as plain:
        with trusting(authority).wrap_socket(plain, server_hostname=address.host) as stranger:
            stranger.sendall(b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 50_000)
            assert stranger.recv(1000).startswith(b"HTTP/1.1 431 ")


def test_it_stops_with_connections_open(server: SpawnedServer, authority: Authority) -> None:
    address = httpx2.URL(server.url)
    with socket.create_connection((address.host, address.port or 443), timeout=120):
        with httpx2.Client(base_url=server.url, verify=trusting(authority), trust_env=False, timeout=120) as http:
            http.put("/log/t")
            with http.stream("GET", "/log/t/0/records", headers={"Accept": "text/event-stream"}) as stream:
                chunks = stream.iter_bytes()
                next(chunks)
                server.signal(signal.SIGTERM)
                list(chunks)
            assert server.wait() == 0
    assert "Traceback" not in server.errors()


def test_clients_that_keep_a_connection_do_not_hold_up_the_stop(server: SpawnedServer, authority: Authority) -> None:
    """A client that is busy elsewhere does not see that the server ends the connection, and sends no farewell."""
    address = httpx2.URL(server.url)
    with ExitStack() as stack:
        for asked in (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b""):
            plain = stack.enter_context(socket.create_connection((address.host, address.port or 443), timeout=120))
            kept = stack.enter_context(trusting(authority).wrap_socket(plain, server_hostname=address.host))
            kept.sendall(asked)
            if asked:
                assert kept.recv(1000).startswith(b"HTTP/1.1 200 ")
        server.signal(signal.SIGTERM)
        assert server.wait(20) == 0, "the grace is 30 s"


@pytest.mark.parametrize("fault", ["no key", "no file", "another's key", "open key", "no pem"])
def test_a_certificate_that_cannot_be_used_stops_the_start(
    tmp_path: Path, authority: Authority, fault: str, forked_program: ForkedProgram
) -> None:
    cert, key = (Path(shutil.copy(file, tmp_path)) for file in authority.certificate("start"))
    key.chmod(0o644 if fault == "open key" else 0o600)
    if fault == "another's key":
        key = authority.certificate("another")[1]
    if fault == "no file":
        cert = tmp_path / "none.pem"
    if fault == "no pem":
        cert.write_text("x")
    options = ["--tls-cert", str(cert), *([] if fault == "no key" else ["--tls-key", str(key)])]
    ended = Program(tmp_path, forked_program)("serve", "--port", "0", *options, **environment())
    assert ended.code == 2, ended.err
    said = {"no key": "tls_key", "no file": "cannot be read", "another's key": "no certificate with its key", "no pem": "no certificate"}
    assert said.get(fault, "chmod 600") in ended.err
