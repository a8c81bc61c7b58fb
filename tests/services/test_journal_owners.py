"""Two servers on one topic of journals on a real Kafka. Callers append with `expected` and idempotency keys to whichever server answers; in
the midst the owner is killed, or stands still and comes back when the other one is the owner."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import headwater
from headwater.client.journal import Journal
from headwater.core.errors import HeadwaterError, WrongExpected
from headwater.journal.write import Appended
from headwater.server.spawned import SpawnedServer
from headwater.testing.log_ground import fresh

pytestmark = [pytest.mark.service("kafka"), pytest.mark.anyio]
CALLERS, APPENDS = 6, 6
_PAUSE = 0.05  # seconds between two tries: the group needs ten to give away what a dead server had


@pytest.fixture
def servers(kafka: str, tmp_path: Path) -> Iterator[list[SpawnedServer]]:
    config = tmp_path / "headwater.toml"
    config.write_text(f'[log]\nengine = "kafka"\n[kafka]\nbootstrap = ["{kafka}"]\n[journal]\nreplicate = false\n')
    made = [SpawnedServer(tmp_path / name, options=("--port", "0", "--config", str(config))) for name in ("one", "two")]
    yield made
    for server in made:
        server.kill()


class Callers:
    """Callers of two servers, and what was acknowledged to them."""

    def __init__(self, journals: list[Journal], gone: set[int]) -> None:
        self._journals, self._gone = journals, gone
        self.acknowledged: dict[int, str] = {}

    async def run(self, number: int) -> None:
        for step in range(APPENDS):
            await self._append(f"{number}-{step}", number)

    async def _append(self, payload: str, turn: int) -> None:
        for attempt in range(10_000):
            last = await self._last(turn)
            try:
                done = await self._tried(payload, last, f"{payload}-{attempt}", turn)
            except WrongExpected:
                continue
            assert done.first not in self.acknowledged, "two callers got one number"
            self.acknowledged[done.first] = payload
            return

    async def _tried(self, payload: str, last: int, key: str, turn: int) -> Appended:
        """Append, again under the same key until somebody answers. Errors: `WrongExpected`."""
        while True:
            for at in self._turns(turn):
                try:
                    return await asyncio.wait_for(self._journals[at].append(payload, expected=last, idempotency_key=key), 20)
                except WrongExpected:
                    raise
                except (HeadwaterError, OSError, TimeoutError):  # dead, standing still, no owner yet: what became of it is not known
                    await asyncio.sleep(_PAUSE)

    async def _last(self, turn: int) -> int:
        while True:
            for at in self._turns(turn):
                try:
                    return await asyncio.wait_for(self._journals[at].pointer(), 20) or 0
                except (HeadwaterError, OSError, TimeoutError):
                    await asyncio.sleep(_PAUSE)

    def _turns(self, turn: int) -> list[int]:
        return [at for at in (turn % 2, (turn + 1) % 2) if at not in self._gone]


@asynccontextmanager
async def journals_at(servers: list[SpawnedServer], name: str) -> AsyncIterator[list[Journal]]:
    async with AsyncExitStack() as opened:
        doors = [await opened.enter_async_context(headwater.open(server.url)) for server in servers]
        yield [door.journals(name)["alice"] for door in doors]


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_the_owner_is_lost_in_the_midst_and_nothing_is_lost_or_doubled(servers: list[SpawnedServer], how: str) -> None:
    name = fresh("bank")
    for server in servers:
        await asyncio.to_thread(server.start)
    async with headwater.open(servers[0].url) as door:
        await door.journals.create(name, partitions=1)
        assert (await door.journals(name)["alice"].append("first", expected=0)).first == 1  # the first server owns it
    gone: set[int] = set()
    async with journals_at(servers, name) as journals:
        callers = Callers(journals, gone)
        running = asyncio.gather(*(callers.run(number) for number in range(CALLERS)))
        while len(callers.acknowledged) < CALLERS:
            await asyncio.sleep(_PAUSE)
        before = len(callers.acknowledged)
        if how == "killed":
            servers[0].signal(signal.SIGKILL)
            gone.add(0)
        else:
            servers[0].signal(signal.SIGSTOP)
            while len(callers.acknowledged) < before + CALLERS // 2:
                await asyncio.sleep(_PAUSE)
            servers[0].signal(signal.SIGCONT)
        await running
        shown = [event async for event in journals[1].read()]
        acknowledged = {1: "first"} | callers.acknowledged
        assert len(acknowledged) == CALLERS * APPENDS + 1
        assert [event.seq_nr for event in shown] == list(range(1, len(shown) + 1))
        assert {event.seq_nr: event.payload for event in shown} == acknowledged, "every acknowledged event is there, each once"
        for journal in journals[1:] if how == "killed" else journals:
            assert [event.payload async for event in journal.read(consistency="end")] == [event.payload for event in shown]
