"""A serving process with a toy part: whose hooks run, when, and what their failing means."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import msgspec
import pytest
from tests.unit.parts import larger_toy
from tests.unit.parts.larger_toy import LARGER_TOY, LivingToy

from headwater import parts
from headwater.client.http_pool import HttpPool
from headwater.client.http_protocol import Exchange
from headwater.core.clock import SystemClock
from headwater.core.errors import BadConfig, DiskFull
from headwater.core.settings import ServerSettings, Settings
from headwater.server.team import FOLDER, Team
from headwater.server.worker import Worker, report

pytestmark = pytest.mark.anyio


async def nothing() -> None:
    """Nothing more to do."""


@pytest.fixture(autouse=True)
def performers(monkeypatch: pytest.MonkeyPatch) -> list[LivingToy]:
    """Every performer that is made."""
    made: list[LivingToy] = []
    monkeypatch.setattr(parts, "PARTS", (*parts.PARTS, LARGER_TOY))
    begin = LivingToy.__init__

    def noting(self: LivingToy, **ground: object) -> None:
        begin(self, **ground)
        made.append(self)

    monkeypatch.setattr(LivingToy, "__init__", noting)
    return made


@asynccontextmanager
async def running(data: Path, team: Team | None = None, server: ServerSettings | None = None) -> AsyncIterator[str]:
    """The address of a worker on a port of its own."""
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"
    settings = Settings(data=data, server=server or ServerSettings())
    worker = Worker(settings, clock=SystemClock(), ids=lambda: "id", tokens=None, certificate=None, team=team)
    up = asyncio.Event()

    async def started() -> None:
        up.set()

    serving = asyncio.create_task(worker.serve([sock], started=started, ending=nothing, signals=lambda number: True))
    waiting = asyncio.create_task(up.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        if not serving.done():
            yield address
    finally:
        worker.stop()
        await serving


async def test_a_part_is_opened_behind_the_log_and_closed_before_it(tmp_path: Path, performers: list[LivingToy]) -> None:
    async with running(tmp_path):
        assert [performer.lives for performer in performers] == [True]
    assert [performer.lives for performer in performers] == [False]


async def test_a_part_that_cannot_be_opened_ends_the_start_and_is_closed(
    tmp_path: Path, performers: list[LivingToy], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(performer: LivingToy, log: object) -> None:
        performer.lives = True
        raise BadConfig("No.", hint="Set it.")

    monkeypatch.setattr(larger_toy, "opens", fails)
    with pytest.raises(BadConfig):
        async with running(tmp_path):
            raise AssertionError
    assert [performer.lives for performer in performers] == [False]


async def test_of_two_workers_the_first_runs_the_part_and_the_other_forwards(tmp_path: Path, performers: list[LivingToy]) -> None:
    (tmp_path / FOLDER).mkdir()
    async with running(tmp_path, Team(tmp_path, slot=0, size=2)), running(tmp_path, Team(tmp_path, slot=1, size=2)) as other:
        async with httpx2.AsyncClient(base_url=other, trust_env=False, timeout=120) as http:
            assert (await http.get("/toy/3")).json() == {"numbers": [3, 2, 1]}
            assert (await http.get("/toy/2/follow")).text == "retry: 1000\n\ndata: 2\n\ndata: 1\n\n"
            assert (await http.get("/toy/x")).status_code == 400
            begun = (await http.post("/toy/3/slowly")).json()
            job = msgspec.convert((await http.get(f"/jobs/{begun['id']}?wait=10")).json(), dict[str, object])
            assert (job["state"], job["answer"]) == ("done", {"numbers": [3, 2, 1]})
            assert (await http.post("/toy/3/slowly", content=b"x" * (65 << 20))).status_code == 413
        assert [performer.lives for performer in performers] == [True]


async def test_a_request_of_the_largest_head_is_forwarded(tmp_path: Path) -> None:
    """What a worker adds to it counts for nobody."""
    (tmp_path / FOLDER).mkdir()
    server = ServerSettings(max_header=1000)
    async with running(tmp_path, Team(tmp_path, slot=0, size=2), server) as one:
        async with running(tmp_path, Team(tmp_path, slot=1, size=2), server) as other:
            found = []
            async with httpx2.AsyncClient(trust_env=False, timeout=120) as http:
                for address in (one, other):
                    found.append(
                        [(await http.get(f"{address}/toy/3", headers={"x": "x" * size})).status_code for size in range(600, 900, 10)]
                    )
    assert found[0] == found[1]
    assert set(found[0]) == {200, 431}


async def test_the_clients_of_a_worker_count_as_their_own_addresses_and_not_as_one(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    server = ServerSettings(max_connections_per_address=4)
    async with running(tmp_path, Team(tmp_path, slot=0, size=2), server):
        pool = HttpPool("owner", 0, unix=tmp_path / FOLDER / "0.sock", only_unix=True)
        made = [await pool.connect(hot=False) for _ in range(8)]
        for connection in made:
            exchange = Exchange(asyncio.get_running_loop(), patience=30)
            connection.send(b"GET /toy/3 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", b"", exchange)
            await exchange.done
            assert exchange.status == 200
        pool.close()


async def test_a_request_that_cannot_be_forwarded_is_counted(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    async with running(tmp_path, Team(tmp_path, slot=1, size=2)) as alone:
        async with httpx2.AsyncClient(base_url=alone, trust_env=False, timeout=120) as http:
            await http.get("/toy/3")
            text = (await http.get("/metrics")).text
    assert 'headwater_http_request_seconds_count{method="GET",route="/toy/{start}",status="503"} 1.0' in text


async def test_without_its_owner_a_request_is_answered_that_it_is_away(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    async with running(tmp_path, Team(tmp_path, slot=1, size=2)) as alone:
        async with httpx2.AsyncClient(base_url=alone, trust_env=False, timeout=120) as http:
            answer = await http.get("/toy/3")
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/readyz")).status_code == 503


def test_what_the_machine_lacks_is_one_line_and_a_bug_has_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    report("id1", DiskFull("No space left.", hint="Free some."))
    report("id2", ValueError("a bug"))
    full, bug = (record.getMessage() for record in caplog.records)
    assert full == "error id1: disk-full: No space left. Free some."
    assert "ValueError: a bug" in bug
    assert "\n" in bug
