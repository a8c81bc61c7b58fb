"""The short way of Appends to journals answers as the long one does: the same requests, with and without it, over the wire."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.server.test_hot import HOSTS, LINES, Counting, asked, request

from headwater.client.journal_performer import JournalPerformer
from headwater.client.journals import Journals
from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.testing.app import app_over

pytestmark = pytest.mark.anyio
DIFFERS = re.compile(rb'"(?:first|last|offset)":\d+')  # from one request to the next
EVENTS = b"/journals/bank/alice/events"
REQUESTS = {
    "one": request(EVENTS, body=b'{"events": [{"payload": {"n": 1}}]}'),
    "several": request(
        EVENTS, body=b'{"events": [{"payload": "x", "tags": ["t"]}, {"payload": {"$binary": "AP8="}}], "headers": {"a": "b"}}'
    ),
    "numbered": request(EVENTS, body=b'{"events": [{"payload": 1, "seq_nr": 70}]}'),
    "wrong expected": request(EVENTS, body=b'{"events": [{"payload": 1}], "expected": 1000}'),
    "encoded": request(b"/journals/bank/a%2Fb/events", body=b'{"events": [{"payload": 1}]}'),
    "no events": request(EVENTS, body=b'{"events": []}'),
    "unordered": request(EVENTS, body=b'{"events": [{"payload": 1, "seq_nr": 2}, {"payload": 1, "seq_nr": 1}]}'),
    "number 0": request(EVENTS, body=b'{"events": [{"payload": 1, "seq_nr": 0}]}'),
    "reserved header": request(EVENTS, body=b'{"events": [{"payload": 1}], "headers": {"journal.action": "x"}}'),
    "bad duration": request(EVENTS, body=b'{"events": [{"payload": 1}], "expire_after": "7"}'),
    "bad json": request(EVENTS, body=b"{"),
    "not utf-8": request(EVENTS, body=b'{"events": [{"payload": "\xff"}]}'),
    "unknown field": request(EVENTS, body=b'{"event": 1}'),
    "unknown topic": request(b"/journals/none/alice/events", body=b'{"events": [{"payload": 1}]}'),
    "if match": request(EVENTS, headers=b'If-Match: "1000"\r\n', body=b'{"events": [{"payload": 1}]}'),
    "named": request(EVENTS, headers=b"Idempotency-Key: a\r\n", body=b'{"events": [{"payload": 1}]}'),
    "lines": request(EVENTS, headers=LINES, body=b'{"events": [{"payload": 1}]}'),
    "query": request(EVENTS + b"?x=1", body=b'{"events": [{"payload": 1}]}'),
    "a form": request(EVENTS, headers=b"Content-Type: application/x-www-form-urlencoded\r\n", body=b"x=1"),
}
SHORT = {"one", "several", "numbered", "wrong expected", "encoded"}


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), tmp_path / "data", SystemClock())
    await opened.open()
    yield opened
    await opened.aclose()


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_is_answered_as_on_the_long_way(name: str, log: LocalLog) -> None:
    performers = {"journal": JournalPerformer(log=log)}
    bank = await Journals(LocalBackend(log, performers=performers))("bank", create=True)
    await bank["alice"].append(1)
    await bank["alice"].append(1, idempotency_key="a")
    app = app_over(log, hosts=HOSTS, performers=performers)
    hot = Counting(app.hot)
    short, long = await asked(app, hot, REQUESTS[name]), await asked(app, None, REQUESTS[name])
    assert DIFFERS.sub(b"", short) == DIFFERS.sub(b"", long)
    assert hot.begun == (["append"] if name in SHORT else [])
    await performers["journal"].aclose()
