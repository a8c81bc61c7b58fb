"""A server that is stopped: commands say so soon, reading goes past it, and nothing is changed behind its back."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from program import Program

from headwater.cli import at
from headwater.cli.at import At
from headwater.client import door
from headwater.client.blocking import open_blocking
from headwater.client.presence import Serving, answers
from headwater.core.errors import Unreachable
from headwater.server.spawned import SpawnedServer


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("hung"))


@pytest.fixture(scope="module")
def server(home: Program) -> Iterator[SpawnedServer]:
    with SpawnedServer(home.data) as spawned:
        assert home("log", "create", "t").code == 0
        assert home("log", "append", "t", "before").code == 0
        yield spawned


@contextmanager
def stopped(server: SpawnedServer) -> Iterator[None]:
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_command_says_that_the_server_does_not_answer_and_waits(home: Program, server: SpawnedServer, form: str) -> None:
    with stopped(server):
        process = home.start("log", "append", "t", form, *(["--json"] if form == "json" else []))
        assert process.stderr is not None
        first, second = process.stderr.readline(), "" if form == "json" else process.stderr.readline()
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    told = json.loads(first)["warning"] if form == "json" else first
    assert f"The server at {server.url} (process {server.pid}) does not answer." in told
    hint = json.loads(first)["hint"] if form == "json" else second
    assert f"kill -CONT {server.pid}" in hint
    assert "--server none" not in hint  # it would not take it
    assert "offset" in out  # the server was let go on, and has done it


def test_reading_goes_past_a_stopped_server(home: Program, server: SpawnedServer) -> None:
    with stopped(server):
        shown = home("log", "show", "t", "--server", "none", "--json")
        assert (shown.code, shown.err) == (0, "")
        assert shown.lines[0]["value"] == "before"
        named = home("log", "topics", "--data", str(home.data), "--server", "none", "--json")
        assert [topic["name"] for topic in named.json] == ["t"]
        assert home("pipeline", "list", "--server", "none").code == 0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for nothing: how long a silent server is waited for is no matter of a test."""
    monkeypatch.setattr(at, "_PATIENCE", 0.05)
    monkeypatch.setattr(at, "_WAITS", 0.05)
    monkeypatch.setattr(door, "_SILENCE", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_command_does_not_wait_for_ever(home: Program, server: SpawnedServer, capsys: pytest.CaptureFixture[str]) -> None:
    with stopped(server), pytest.raises(Unreachable, match="Nothing was asked of it") as no, At(data=home.data).door():
        pass
    assert "--server none" in no.value.hint
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.usefixtures("impatient")
def test_the_door_does_not_wait_for_ever(home: Program, server: SpawnedServer) -> None:
    with stopped(server), pytest.raises(Unreachable, match="did not answer"), open_blocking(home.data):
        pass
    with open_blocking(home.data) as hw:
        assert hw.log.bounds("t", 0).end


@pytest.mark.usefixtures("impatient")
def test_the_door_to_an_address_does_not_wait_for_ever(server: SpawnedServer) -> None:
    with stopped(server), pytest.raises(Unreachable, match=r"did not answer for .* Nothing was asked") as no, open_blocking(server.url):
        pass
    assert f"curl {server.url}/readyz" in no.value.hint
    with stopped(server), pytest.raises(Unreachable, match="did not answer"), At(server=server.url).door():
        pass
    with open_blocking(server.url) as hw:
        assert hw.log.bounds("t", 0).end


@pytest.mark.parametrize("words", [["append", "t", "x"], ["create", "u"], ["compact", "t"], ["delete-topic", "t", "--yes"]])
def test_nothing_is_changed_past_a_living_server(home: Program, server: SpawnedServer, words: list[str]) -> None:
    with stopped(server):
        refused = home("log", *words, "--server", "none")
    assert refused.code == 2
    assert f"process {server.pid}" in refused.err
    assert home("log", "show", "t", "--json").lines[0]["value"] == "before"


def test_without_a_server_there_is_nothing_to_pass(tmp_path: Path) -> None:
    home = Program(tmp_path)
    assert home("log", "create", "t", "--server", "none").code == 0
    assert home("log", "append", "t", "x", "--server", "none").code == 0


def test_completion_does_not_wait_for_a_stopped_server(home: Program, server: SpawnedServer) -> None:
    with stopped(server), pytest.raises(Unreachable, match="does not answer"), At(data=home.data).door(waits=False):
        pass


def test_a_silent_socket_does_not_answer_and_a_closed_one_leaves_it_to_the_call(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent, socket.create_server(("127.0.0.1", 0)) as port:
        silent.bind(str(tmp_path / "server.sock"))
        silent.listen(0)
        url = f"http://127.0.0.1:{port.getsockname()[1]}"
        assert not answers(Serving(url, 1, "", "server.sock"), tmp_path, patience=0.05)
        assert not answers(Serving(url, 1, "", "server.sock"), tmp_path, patience=0.05)  # whose queue is full now
        assert not answers(Serving(url, 1, ""), tmp_path, patience=0.05)
        assert not answers(Serving(url, 1, "", "no.sock"), tmp_path, patience=0.05)
    assert answers(Serving(url, 1, ""), tmp_path, patience=0.05)
