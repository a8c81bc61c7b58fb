"""`headwater serve --workers`: several processes on one port, of which any may die."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from forked_program import ForkedProgram
from pipeline_home import wait_until

import headwater
from headwater.client.presence import serving
from headwater.core.errors import HeadwaterError, OutcomeUnknown, Unavailable
from headwater.log.record import Record
from headwater.server.spawned import SpawnedServer

OPTIONS = ("--port", "0", "--workers", "2")
APPENDED = 'headwater_http_request_seconds_count{method="POST",route="/log/{topic}/{partition}/records",status="201"}'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SpawnedServer]:
    with SpawnedServer(tmp_path / "data", options=OPTIONS) as running:
        yield running


def workers(server: SpawnedServer) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()]


def get(server: SpawnedServer, path: str) -> httpx2.Response:
    return httpx2.get(server.url + path, trust_env=False, timeout=120)


def number(server: SpawnedServer, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in get(server, "/metrics").text.splitlines() if line.startswith(name))


def ready(server: SpawnedServer) -> bool:
    try:
        return get(server, "/readyz").status_code == 200
    except httpx2.HTTPError:  # the worker that took the connection was killed
        return False


async def append_all(server: SpawnedServer, topic: str, each: int, clients: int = 8) -> None:
    async def one() -> None:
        async with headwater.open(server.url) as hw:
            for _ in range(each):
                await hw.log.append(topic, 0, [Record(None, b"x")])

    await asyncio.gather(*(one() for _ in range(clients)))


@pytest.mark.anyio
async def test_metrics_of_every_part_are_shown_whoever_is_asked(server: SpawnedServer) -> None:
    async with headwater.open(server.url) as hw:
        queue = await hw.queue("pages", create=True)
        await queue.put("a", {})
        region = await hw.wal("wal").open(7, create=True)
        await region.write(1, [b"x"])
        await (await hw.journals("bank", create=True))["alice"].append({"type": "opened"})
    for _ in range(6):
        assert get(server, "/metrics").status_code == 200
        assert number(server, 'headwater_queue_rows{queue="pages",state="due"}') == 1
        assert number(server, 'headwater_queue_paused{queue="pages"}') == 0
        assert "headwater_wal_" in get(server, "/metrics").text


@pytest.mark.anyio
async def test_metrics_speak_for_all_of_them_and_for_the_dead(server: SpawnedServer) -> None:
    async with headwater.open(server.url) as hw:
        await hw.log.create_topic("t")
    await append_all(server, "t", 10)
    for _ in range(6):  # whoever is asked
        assert number(server, APPENDED) == 80
        assert number(server, "headwater_log_appended_records_total") == 80
    before = workers(server)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not set(before) & set(workers(server)) and len(workers(server)) == 2 and ready(server))
    await append_all(server, "t", 1)
    for _ in range(6):
        assert number(server, APPENDED) == 88
    assert get(server, "/log/t/0").json()["end"] == 88
    assert server.errors().count("it is started again") == 2


@pytest.mark.anyio
async def test_the_log_of_the_server_has_a_line_for_each_change_whoever_performs_it(server: SpawnedServer) -> None:
    for region in range(6):  # by either of them
        async with headwater.open(server.url) as hw:
            await hw.wal("wal").create(region)
    lines = [json.loads(line) for line in (server.data / "serve.err").read_text().splitlines()]
    assert sum(line["logger"] == "headwater.audit" and "wal_create" in line["event"] for line in lines) == 6


@pytest.mark.anyio
async def test_what_one_process_must_run_is_reached_through_any_of_them(server: SpawnedServer) -> None:
    for _ in range(12):
        assert get(server, "/pipelines").json() == {"items": [], "next": None}
        assert get(server, "/pipelines/none").status_code == 404
        assert get(server, "/jobs/00").json()["code"] == "not-found"
        assert get(server, "/none").status_code == 404
    async with headwater.open(server.data) as hw:
        await hw.log.create_topic("t")
        for end in range(20):
            await hw.log.append("t", 0, [Record(None, b"%d" % end)])
        assert [record.value for record in await hw.log.read("t", 0, 0)] == [b"%d" % end for end in range(20)]


@pytest.mark.anyio
async def test_workers_killed_under_load_lose_and_double_nothing_that_was_acknowledged(server: SpawnedServer) -> None:
    """Over the Unix socket, where appends are pipelined: an answer that is lost is said, and every record is there once at most."""
    acknowledged: list[bytes] = []
    unknown: list[bytes] = []
    goal, reached, back = 100, asyncio.Event(), asyncio.Event()

    async def client(hw: headwater.Headwater, name: int) -> None:
        for count in range(40):
            value = b"%d-%d" % (name, count)
            try:
                await hw.log.append("t", 0, [Record(None, value)])
                acknowledged.append(value)
                if len(acknowledged) >= goal:
                    reached.set()
            except OutcomeUnknown:
                unknown.append(value)
            except Unavailable:
                await back.wait()

    async with headwater.open(server.data) as hw, asyncio.timeout(120):
        await hw.log.create_topic("t")
        clients = [asyncio.ensure_future(client(hw, name)) for name in range(40)]
        for _ in range(3):
            await asyncio.wait([asyncio.ensure_future(reached.wait()), asyncio.gather(*clients)], return_when=asyncio.FIRST_COMPLETED)
            back.clear()
            for pid in workers(server):
                os.kill(pid, signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: ready(server))
            goal = len(acknowledged) + 100
            reached.clear()
            back.set()
        await asyncio.gather(*clients)
    async with headwater.open(server.data) as hw:
        values = [record.value for record in await hw.log.read("t", 0, 0, limit=10_000)]
    assert len(values) == len(set(values))
    assert set(acknowledged) <= set(values)
    assert set(values) <= {*acknowledged, *unknown}
    assert unknown, "three kills met nothing under way"


def test_a_stop_ends_all_of_them_and_leaves_nothing(server: SpawnedServer) -> None:
    pids = workers(server)
    assert server.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not {"workers", "server.sock", "server.json"} & set(os.listdir(server.data))


def test_ctrl_c_reaches_all_of_them_and_is_one_stop(tmp_path: Path, forked_program: ForkedProgram) -> None:
    """A terminal sends it to every process of the group."""
    command = [sys.executable, "-m", "headwater.cli", "serve", "--data", str(tmp_path), *OPTIONS]
    with forked_program.popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            wait_until(lambda: serving(tmp_path) is not None)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(240) == 0
        finally:
            process.kill()


def test_a_second_signal_ends_all_of_them_at_once(server: SpawnedServer) -> None:
    with httpx2.stream("GET", server.url + "/healthz", trust_env=False):
        pids = workers(server)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)  # they will not end by themselves
        server.signal(signal.SIGTERM)
        server.signal(signal.SIGINT)
        assert server.wait() == 130
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_workers_end_when_their_parent_is_killed(server: SpawnedServer) -> None:
    pids = workers(server)
    server.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}/stat").exists() and _state(pid) != "Z" for pid in pids))
    with SpawnedServer(server.data, options=OPTIONS) as again:
        assert get(again, "/readyz").status_code == 200


def test_a_log_that_cannot_be_opened_is_said_as_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "engine.json").write_text('{"engine": "embedded", "format": 99}')
    said: list[tuple[int, str]] = []
    for count in ("1", "2"):
        command = [sys.executable, "-m", "headwater.cli", "serve", "--data", str(tmp_path), "--port", "0", "--workers", count]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        said.append((done.returncode, done.stderr))
    assert said[0] == said[1]


def test_a_taken_directory_is_left_alone(server: SpawnedServer) -> None:
    before = (server.data / "server.sock").stat().st_ino
    with pytest.raises(HeadwaterError, match="served already"):
        SpawnedServer(server.data, options=OPTIONS).start()
    assert (server.data / "server.sock").stat().st_ino == before
    assert get(server, "/readyz").status_code == 200


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"
