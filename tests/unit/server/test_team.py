"""Two workers in one process: what they tell each other over their sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headwater.core.errors import Unavailable
from headwater.core.metrics import HttpMetrics, Metrics
from headwater.core.settings import ServerSettings
from headwater.core.unix_socket import listen_unix
from headwater.server.connections import Connections, Limits
from headwater.server.http_server import HttpServer
from headwater.server.team import FOLDER, Team

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def worker(data: Path, slot: int, requests: int, *, ready: bool = True) -> AsyncIterator[Team]:
    """A worker that has answered so many requests."""
    team, metrics = Team(data, slot=slot, size=2), Metrics()
    for _ in range(requests):
        metrics.http.answered("/log", "GET", 200, 0.01)

    async def check() -> None:
        if not ready:
            raise Unavailable("No.", hint="Wait.")

    async def nothing(*_: object) -> None:
        raise AssertionError

    limits = Limits.of(ServerSettings(), descriptors=100)
    server = HttpServer(team.app(nothing, check), connections=Connections(limits, HttpMetrics()), ids=lambda: "id", grace=1)
    sock = listen_unix(team.folder, team.socket(slot).name)
    assert sock is not None
    serving, noting = asyncio.create_task(server.serve([sock])), asyncio.create_task(team.write_down(metrics))
    await server.listening.wait()
    try:
        yield team
    finally:
        server.stop()
        await serving
        noting.cancel()
        await asyncio.gather(noting, return_exceptions=True)
        await team.aclose()


def requests_in(text: bytes) -> float:
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(b"headwater_http_request_seconds_count"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path


async def test_each_speaks_for_both_and_for_the_dead_before_them(data: Path) -> None:
    async with worker(data, 0, 3) as first:
        async with worker(data, 1, 5) as second:
            assert requests_in(await first.render()) == requests_in(await second.render()) == 8
            await first.check()
        assert requests_in(await first.render()) == 8, "what was shown once is not taken back"
        with pytest.raises(Unavailable, match="Worker 1 of 2 is not ready"):
            await first.check()
        async with worker(data, 1, 2) as again:
            assert requests_in(await first.render()) == requests_in(await again.render()) == 10
            assert requests_in(await first.render()) == 10


async def test_one_that_is_not_ready_makes_all_of_them_not_ready(data: Path) -> None:
    async with worker(data, 0, 0) as first, worker(data, 1, 0, ready=False):
        with pytest.raises(Unavailable):
            await first.check()


async def test_counts_that_cannot_be_read_are_none(data: Path) -> None:
    (data / FOLDER / "1.counts").write_bytes(b"[")
    async with worker(data, 0, 4) as first:
        assert requests_in(await first.render()) == 4
