"""The short way of puts and claims answers as the long one does: the same requests, with and without it, over the wire."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.unit.server.test_hot import HOSTS, LINES, Counting, asked, request
from tests.unit.server.test_hot_queue import connected

from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.queue import Queues
from headwater.client.queue_performer import QueuePerformer
from headwater.client.wal_performer import WalPerformer
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.core.units import Size
from headwater.queue.data_reader import DataReader
from headwater.queue.settings import QueueSettings
from headwater.testing.app import app_over
from headwater.testing.scripted import served

pytestmark = pytest.mark.anyio
DIFFERS = re.compile(rb'"(?:id|key|token|lease_until|[a-z_]*date)":(?:"[^"]*"|\d+)')  # from one request to the next
ROWS, CLAIMS = b"/queues/pages/rows", b"/queues/pages/claims"
REQUESTS = {
    "one": request(ROWS, body=b'{"key": "there", "data": {"n": 1}, "priority": 10}'),
    "a list": request(ROWS, body=b'[{"key": "there"}, {"key": "there", "data": {"$binary": "AP8="}}]'),
    "lines": request(ROWS, headers=LINES, body=b'{"key": "there"}\n{"key": "there", "lane": "x"}\n'),
    "no rows": request(ROWS, body=b"[]"),
    "no key": request(ROWS, body=b"{}"),
    "bad json": request(ROWS, body=b"{"),
    "bad priority": request(ROWS, body=b'{"key": "there", "priority": 256}'),
    "bad date": request(ROWS, body=b'{"key": "there", "process_date": "soon"}'),
    "not utf-8": request(ROWS, body=b'{"key": "\xff"}'),
    "named": request(ROWS, headers=b"Idempotency-Key: a\r\n", body=b'{"key": "there"}'),
    "unknown queue": request(b"/queues/none/rows", body=b'{"key": "there"}'),
    "query": request(ROWS + b"?x=1", body=b'{"key": "there"}'),
    "a form": request(ROWS, headers=b"Content-Type: application/x-www-form-urlencoded\r\n", body=b"key=there"),
    "claim": request(CLAIMS, body=b'{"n": 2, "lease": "60s", "group": "g", "worker": "w"}'),
    "claim of large rows": request(b"/queues/large/claims", body=b'{"n": 2}'),
    "claim of nothing": request(CLAIMS, body=b'{"n": 0}'),
    "empty claim": request(CLAIMS, body=b""),
    "stale": request(CLAIMS, body=b'{"n": 0, "done": ["0-1-1"], "fail": [{"token": "0-1-2", "retry_after": "5s"}], "extend": ["x"]}'),
    "bad n": request(CLAIMS, body=b'{"n": -1}'),
    "bad lease": request(CLAIMS, body=b'{"lease": "60"}'),
    "unknown field": request(CLAIMS, body=b'{"leese": "60s"}'),
    "claim by header": request(CLAIMS, headers=b"Prefer: wait=1\r\n", body=b"{}"),
    "claim of an unknown queue": request(b"/queues/none/claims", body=b"{}"),
}
SHORT = {"one", "a list", "lines", "claim", "claim of large rows", "claim of nothing", "empty claim", "stale"}


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), tmp_path / "data", SystemClock())
    await opened.open()
    yield opened
    await opened.aclose()


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_is_answered_as_on_the_long_way(name: str, log: LocalLog) -> None:
    wal = WalPerformer(log=log)
    performers = {"wal": wal, "queue": QueuePerformer(log=log, wal=wal)}
    pages = await Queues(LocalBackend(log, performers=performers))("pages", create=True)
    large = await Queues(LocalBackend(log, performers=performers))("large", create=QueueSettings(memory=Size(0)))
    await large.put_many([(f"k{number}", "x" * 5000) for number in range(8)])
    await pages.put("there", 1, delay="1h")
    await pages.put("there", {"n": 1}, priority=10)
    await pages.put_many([(f"k{number}", 1) for number in range(8)])
    await pages.put("there", idempotency_key="a")
    app = app_over(log, hosts=HOSTS, performers=performers)
    hot, sent = Counting(app.hot), REQUESTS[name]
    short, long = await asked(app, hot, sent), await asked(app, None, sent)
    assert sorted(DIFFERS.sub(b"", short).split(b"\r\n")) == sorted(DIFFERS.sub(b"", long).split(b"\r\n"))
    assert bool(hot.begun) == (name in SHORT)
    await performers["queue"].aclose()
    await wal.aclose()


async def test_large_rows_that_are_read_for_a_client_that_leaves_are_given_to_others(
    log: LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = WalPerformer(log=log)
    performers = {"wal": wal, "queue": QueuePerformer(log=log, wal=wal)}
    large = await Queues(LocalBackend(log, performers=performers))("large", create=QueueSettings(memory=Size(0)))
    await large.put("k", "x" * 5000)
    reading = asyncio.Event()

    async def never(*given: object) -> None:
        reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(DataReader, "read", never)
    async with asyncio.timeout(60):
        async with connected(app_over(log, hosts=HOSTS, performers=performers)) as ask:
            await ask(request(b"/queues/large/claims", body=b"{}"), 0)
            await reading.wait()
            assert (await large.count()).processing == 1
        while (await large.count()).due != 1:
            await asyncio.sleep(0)
    await performers["queue"].aclose()
    await wal.aclose()


async def test_a_wait_that_cannot_be_leaves_no_task_behind(log: LocalLog) -> None:
    wal, errors = WalPerformer(log=log), list[dict[str, object]]()
    performers = {"wal": wal, "queue": QueuePerformer(log=log, wal=wal)}
    await Queues(LocalBackend(log, performers=performers))("pages", create=True)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with served(app_over(log, performers=performers)) as url, httpx2.AsyncClient(base_url=url) as http:
        assert (await http.get("/queues/pages/results/1?wait=5")).status_code == 400
        gc.collect()
    await performers["queue"].aclose()
    await wal.aclose()
    assert not errors
