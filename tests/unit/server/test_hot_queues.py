"""The short way of puts and claims answers as the long one does: the same requests, with and without it, over the wire."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.server.test_hot import HOSTS, LINES, Counting, asked, request

from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.queue import Queues
from headwater.client.queue_performer import QueuePerformer
from headwater.client.wal_performer import WalPerformer
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.testing.app import app_over

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
    "claim of nothing": request(CLAIMS, body=b'{"n": 0}'),
    "empty claim": request(CLAIMS, body=b""),
    "stale": request(CLAIMS, body=b'{"n": 0, "done": ["0-1-1"], "fail": [{"token": "0-1-2", "retry_after": "5s"}], "extend": ["x"]}'),
    "bad n": request(CLAIMS, body=b'{"n": -1}'),
    "bad lease": request(CLAIMS, body=b'{"lease": "60"}'),
    "unknown field": request(CLAIMS, body=b'{"leese": "60s"}'),
    "claim by header": request(CLAIMS, headers=b"Prefer: wait=1\r\n", body=b"{}"),
    "claim of an unknown queue": request(b"/queues/none/claims", body=b"{}"),
}
SHORT = {"one", "a list", "lines", "claim", "claim of nothing", "empty claim", "stale"}


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
