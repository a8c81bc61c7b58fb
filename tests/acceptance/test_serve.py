"""`headwater serve` as a process: starting, stopping, dying, and who may reach it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest
from forked_program import ForkedProgram
from free_port import free_port
from program import Ran

import headwater
from headwater.client.presence import serving
from headwater.core.errors import HeadwaterError, OutcomeUnknown, Unavailable
from headwater.log.record import Record
from headwater.server.spawned import SpawnedServer

TOKENS = "reader " + "r" * 24 + "\nwriter " + "w" * 24 + "\noperator " + "o" * 24 + "\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def headwater_serve(tmp_path: Path, forked_program: ForkedProgram) -> Callable[..., Ran]:
    """Runs `headwater serve` where it is expected to end by itself."""
    return lambda *options: forked_program("serve", *options, home=tmp_path, env=dict(os.environ), timeout=60)


def token_file(path: Path, text: str = TOKENS, mode: int = 0o600) -> Path:
    file = path / "tokens"
    file.write_text(text)
    file.chmod(mode)
    return file


class Load:
    """Callers that append as fast as they are answered, and remember what was acknowledged: offset → value."""

    def __init__(self, callers: int = 16) -> None:
        self._callers = callers
        self.acknowledged: dict[int, bytes] = {}
        self.errors: list[HeadwaterError] = []

    async def run(self, url: str, when: Callable[[], Awaitable[None]]) -> None:
        """Load the server until every caller has met an error, which `when` is to bring about."""
        async with headwater.open(url) as hw:
            await hw.log.create_topic("load")
            callers = [asyncio.create_task(self._caller(hw, number)) for number in range(self._callers)]
            while len(self.acknowledged) < 200 and not all(caller.done() for caller in callers):
                await asyncio.sleep(0.01)
            await when()
            await asyncio.gather(*callers)

    async def _caller(self, hw: headwater.Headwater, number: int) -> None:
        for turn in range(1_000_000):
            value = b"%d-%d" % (number, turn)
            try:
                (offset,) = await hw.log.append("load", 0, [Record(None, value)])
            except HeadwaterError as error:
                self.errors.append(error)
                return
            self.acknowledged[offset] = value

    async def compare(self, where: str | Path) -> None:
        """Every acknowledged record is where it was said to be."""
        async with headwater.open(where) as hw:
            bounds = await hw.log.bounds("load", 0)
            found: dict[int, bytes | None] = {}
            while len(found) < bounds.end:
                for record in await hw.log.read("load", 0, len(found), limit=10_000):
                    assert record.offset is not None
                    found[record.offset] = record.value
        lost = {offset: value for offset, value in self.acknowledged.items() if found.get(offset) != value}
        assert not lost
        assert len(self.acknowledged) >= 200
        assert len(set(found.values())) == len(found), "no record is there twice"


def test_the_address_is_printed_and_written_down(tmp_path: Path) -> None:
    with SpawnedServer(tmp_path / "new" / "data") as server:
        found = serving(server.data)
        assert found is not None
        assert (found.url, found.pid) == (server.url, server.pid)
        assert found.started.endswith("Z")
        assert httpx2.get(server.url + "/healthz", trust_env=False).json() == {"status": "ok"}
        assert httpx2.get(server.url + "/readyz", trust_env=False).json() == {"status": "ready", "log": "embedded"}
        assert server.stop() == 0
    assert not (server.data / "server.json").exists()
    assert f"at {server.url}" in server.output()
    assert server.output().endswith("everything acknowledged is on disk\n")
    assert server.errors() == ""


def test_one_damaged_topic_does_not_make_the_server_unready(tmp_path: Path) -> None:
    with SpawnedServer(tmp_path) as server:
        for name in ("whole", "rotten"):
            assert httpx2.put(f"{server.url}/log/{name}", trust_env=False).status_code == 201
        (server.data / "log" / "rotten" / "topic.json").write_text("{")
        assert httpx2.get(server.url + "/readyz", trust_env=False).status_code == 200
        sent = httpx2.post(f"{server.url}/log/whole/0/records", json={"value": "x"}, trust_env=False)
        assert sent.status_code == 201
        assert httpx2.get(f"{server.url}/log/rotten", trust_env=False).json()["code"] == "damaged"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.anyio
async def test_a_stop_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path, number: signal.Signals) -> None:
    load = Load()
    with SpawnedServer(tmp_path) as server:

        async def stop() -> None:
            server.signal(number)

        async with asyncio.timeout(60):
            await load.run(server.url, stop)
        assert server.wait() == 0
        assert "Traceback" not in server.errors()
    assert all(isinstance(error, Unavailable) for error in load.errors)
    await load.compare(tmp_path)


@pytest.mark.anyio
async def test_kill_9_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    load = Load()
    with SpawnedServer(tmp_path) as server:

        async def kill() -> None:
            server.kill()

        async with asyncio.timeout(60):
            await load.run(server.url, kill)
    assert all(isinstance(error, Unavailable) for error in load.errors)
    assert any(isinstance(error, OutcomeUnknown) for error in load.errors), "some were under way: nobody can know about those"
    assert (tmp_path / "server.json").exists()
    await load.compare(tmp_path)  # the dead server's words are not believed: this opens the directory
    with SpawnedServer(tmp_path) as again:
        await load.compare(again.url)


def test_streams_end_whole_when_the_server_stops(tmp_path: Path) -> None:
    with SpawnedServer(tmp_path) as server, httpx2.Client(base_url=server.url, trust_env=False, timeout=120) as http:
        http.put("/log/t")
        http.post("/log/t/0/records", content=b'{"value": 1}')
        with http.stream("GET", "/log/t/0/records?from=0", headers={"Accept": "text/event-stream"}) as stream:
            chunks = stream.iter_bytes()
            seen = b""
            while b"id: 0" not in seen:
                seen += next(chunks)
            server.signal(signal.SIGTERM)
            list(chunks)  # a cut would raise here: the chunked answer has its end
        assert server.wait() == 0


def test_a_stop_while_it_is_still_opening_is_clean(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "headwater.cli", "serve", "--data", str(tmp_path), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not _healthy(port):
                assert process.poll() is None
            process.terminate()
            _, errors = process.communicate(timeout=240)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")
    assert not (tmp_path / "server.json").exists()


def _healthy(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=120).status_code == 200
    except httpx2.ConnectError:
        return False


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with SpawnedServer(tmp_path) as server:
        address = httpx2.URL(server.url)
        with socket.create_connection((address.host, address.port or 80), timeout=120) as slow:
            # A request that never ends holds the clean stop up for its whole grace.
            slow.sendall(b"PUT /log/t HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n")
            while b'route="unmatched"' not in httpx2.get(server.url + "/metrics", trust_env=False).content:
                httpx2.get(server.url + "/nothing", trust_env=False)
            server.signal(signal.SIGINT)
            while _accepts(address):
                os.sched_yield()
            server.signal(signal.SIGINT)
            assert server.wait(20) == 130
    assert serving(tmp_path) is None


def _accepts(address: httpx2.URL) -> bool:
    try:
        with socket.create_connection((address.host, address.port or 80), timeout=5):
            return True
    except OSError:
        return False


def test_a_request_that_never_ends_is_given_up_after_the_grace(tmp_path: Path) -> None:
    environ = {**os.environ, "HEADWATER_SERVER__STOP_GRACE": "3s"}
    with SpawnedServer(tmp_path, environ=environ) as server:
        address = httpx2.URL(server.url)
        with socket.create_connection((address.host, address.port or 80), timeout=120) as slow:
            slow.sendall(b"PUT /log/t HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n")
            httpx2.get(server.url + "/healthz", trust_env=False)
            assert server.stop() == 0
    assert not (tmp_path / "server.json").exists()


def test_a_second_server_of_a_directory_is_told_of_the_first(tmp_path: Path, headwater_serve: Callable[..., Ran]) -> None:
    with SpawnedServer(tmp_path) as server:
        second = headwater_serve("--data", str(tmp_path), "--port", "0")
        assert second.code == 4
        assert f"served already at {server.url} (process {server.pid}" in second.err
        assert httpx2.get(server.url + "/healthz", trust_env=False).status_code == 200
        found = serving(tmp_path)
        assert found is not None
        assert found.pid == server.pid


def test_a_taken_port_is_said_with_what_to_do(tmp_path: Path, headwater_serve: Callable[..., Ran]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = headwater_serve("--data", str(tmp_path), "--port", str(port))
    assert ended.code == 4
    assert f"Port {port} on 127.0.0.1 is taken." in ended.err
    assert f"make run PORT={port + 1}" in ended.err
    assert not (tmp_path / "server.json").exists()


def test_the_network_is_not_let_in_without_tokens(tmp_path: Path, headwater_serve: Callable[..., Ran]) -> None:
    ended = headwater_serve("--data", str(tmp_path), "--port", "0", "--host", "0.0.0.0")
    assert ended.code == 2
    assert "--token-file" in ended.err


def test_the_network_is_let_in_with_tokens(tmp_path: Path) -> None:
    with SpawnedServer(
        tmp_path / "data", options=("--port", "0", "--host", "0.0.0.0", "--token-file", str(token_file(tmp_path)))
    ) as server:
        assert server.url.startswith("http://127.0.0.1:")
        ask = httpx2.Client(base_url=server.url, trust_env=False, headers={"Host": "log.example"})
        with ask:
            assert ask.get("/healthz").status_code == 200
            for path in ("/readyz", "/metrics", "/openapi.json", "/log", "/nothing"):
                denied = ask.get(path)
                assert (denied.status_code, denied.headers["www-authenticate"]) == (401, "Bearer")
                assert denied.json()["code"] == "denied"


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [(TOKENS, 0o644, "chmod 600"), ("admin " + "x" * 24, 0o600, "reader, writer, operator"), ("", 0o600, "no token")],
)
def test_a_bad_token_file_stops_the_start_without_being_shown(
    tmp_path: Path, headwater_serve: Callable[..., Ran], text: str, mode: int, said: str
) -> None:
    ended = headwater_serve("--data", str(tmp_path / "data"), "--port", "0", "--token-file", str(token_file(tmp_path, text, mode)))
    assert ended.code == 2
    assert said in ended.err
    assert "x" * 24 not in ended.err
    assert "r" * 24 not in ended.err


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        ("r", "GET", "/log", 200),
        ("r", "GET", "/metrics", 200),
        ("r", "GET", "/log/t/0/records", 200),
        ("r", "POST", "/log/t/0/records", 403),
        ("r", "PUT", "/log/new", 403),
        ("r", "DELETE", "/log/t", 403),
        ("r", "DELETE", "/log/t/0/records?before=0", 403),
        ("r", "POST", "/log/t/0/compact", 403),
        ("w", "GET", "/log", 200),
        ("w", "POST", "/log/t/0/records", 201),
        ("w", "PUT", "/log/new", 403),
        ("w", "DELETE", "/log/t/0/records?before=0", 403),
        ("o", "POST", "/log/t/0/records", 201),
        ("o", "PUT", "/log/t", 200),
        ("o", "POST", "/log/t/0/compact", 200),
        ("x", "GET", "/log", 401),
    ],
)
def test_each_role_may_do_its_part(guarded: SpawnedServer, role: str, method: str, path: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {role * 24}"}
    with httpx2.Client(base_url=guarded.url, trust_env=False, headers=headers) as http:
        content = b'{"key": "k"}' if method == "POST" and path.endswith("/records") else None
        assert http.request(method, path, content=content).status_code == status


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> object:
    path = tmp_path_factory.mktemp("guarded")
    with SpawnedServer(path / "data", options=("--port", "0", "--token-file", str(token_file(path)))) as server:
        httpx2.put(server.url + "/log/t", headers={"Authorization": f"Bearer {'o' * 24}"}, trust_env=False)
        yield server


def test_a_directory_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path, headwater_serve: Callable[..., Ran]) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "engine.json").write_text('{"engine": "embedded", "format": 99}')
    ended = headwater_serve("--data", str(tmp_path), "--port", "0")
    assert ended.code not in (0, 1)
    assert "format 99" in ended.err
    assert not (tmp_path / "server.json").exists()


def test_data_that_is_a_file_is_refused(tmp_path: Path, headwater_serve: Callable[..., Ran]) -> None:
    (tmp_path / "data").write_text("")
    ended = headwater_serve("--data", str(tmp_path / "data"), "--port", "0")
    assert ended.code not in (0, 1), ended.err
    assert "directory" in ended.err


@pytest.mark.parametrize("options", [("--port", "99999"), ("--port", "x"), ("--host", "no.such.host.invalid", "--port", "0")])
def test_bad_options_are_usage_errors(tmp_path: Path, headwater_serve: Callable[..., Ran], options: tuple[str, ...]) -> None:
    assert headwater_serve("--data", str(tmp_path), *options).code == 2
