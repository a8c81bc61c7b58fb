"""The log of a server, where something else answers, or nothing does for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from headwater.client import remote_backend
from headwater.client.log import AsyncLog
from headwater.client.pipelines import Pipelines
from headwater.client.remote import RemoteLog, remote_log
from headwater.core.clock import SystemClock
from headwater.core.errors import BadConfig, HeadwaterError, OutcomeUnknown, Unavailable, Unreachable
from headwater.log.record import Record
from headwater.testing.scripted import Script, ScriptedAnswer, ScriptedRequest, scripted

pytestmark = pytest.mark.anyio
EVENTS = {"Content-Type": "text/event-stream"}


class HandClock(SystemClock):
    """Moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@asynccontextmanager
async def answering(script: Script, clock: SystemClock | None = None) -> AsyncIterator[RemoteLog]:
    async with scripted(script) as url:
        log = remote_log(url, token=None, clock=clock or SystemClock())
        yield log
        await log.aclose()


async def first(log: AsyncLog) -> Record:
    async for record in log.tail("t", 0, 0):
        return record
    raise AssertionError


READS: list[Callable[[AsyncLog], Awaitable[object]]] = [
    lambda log: log.topics(),
    lambda log: log.topic("t"),
    lambda log: log.bounds("t", 0),
    lambda log: log.read("t", 0, 0),
    lambda log: log.offset_at("t", 0, 1),
]
CHANGES: list[Callable[[AsyncLog], Awaitable[object]]] = [
    lambda log: log.create_topic("t"),
    lambda log: log.append("t", 0, [Record(None, b"x")]),
    lambda log: log.delete_before("t", 0, 1),
    lambda log: log.compact("t", 0),
]
STRANGE = [
    b"",
    b"<html>Welcome</html>",
    b"null",
    b"[]",
    b"{}",
    b"5",
    b'{"items": null, "next": null}',
    b'{"items": [1, {}, "a"], "next": null}',
    b'{"name": "t", "partitions": 1, "settings": {"segment": 5}, "generation": "g"}',
    b'{"name": "t", "partitions": 1, "settings": {"segment": "much"}, "generation": "g"}',
    b'{"offsets": "abc", "offset": null, "start": "a", "end": {}, "records_before": []}',
    b'{"a": "\xff"}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", STRANGE)
async def test_an_answer_of_something_else_is_said_by_name(body: bytes) -> None:
    async with answering(lambda request: ScriptedAnswer(200, body)) as log:
        for read in READS:
            with pytest.raises(Unreachable, match="no headwater server"):
                await read(log)
        for change in CHANGES:
            with pytest.raises(OutcomeUnknown, match="may have been done or not"):
                await change(log)
        with pytest.raises(Unreachable, match="no headwater server"):
            await Pipelines(log.backend)["p"].status()


@pytest.mark.parametrize("status", [204, 301, 304, 400, 404, 500, 502])
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"title": 1}', b'{"title": "\xff"}', b"[" * 100_000, b'{"x":' * 100_000])
async def test_every_status_with_any_body_is_an_error_of_ours(status: int, body: bytes) -> None:
    async with answering(lambda request: ScriptedAnswer(status, body, {"Location": "/elsewhere"})) as log:
        for call in [*READS, *CHANGES]:
            with pytest.raises(HeadwaterError):
                await call(log)


async def test_content_that_is_not_packed_as_it_says_is_an_error_of_ours() -> None:
    packed = {"Content-Encoding": "gzip"}
    async with answering(lambda request: ScriptedAnswer(200, b"no gzip", packed)) as log:
        for read in READS:
            with pytest.raises(Unreachable, match="no headwater server"):
                await read(log)
        for change in CHANGES:
            with pytest.raises(OutcomeUnknown):
                await change(log)


@pytest.mark.parametrize("data", [b"data: {\n\n", b'data: {"offset": "a"}\n\n', b'data: {"offset": 1, "value": {"$binary": "a"}}\n\n'])
async def test_events_of_something_else_end_a_tail_by_name(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_backend, "_AGAIN", 0.0)
    monkeypatch.setattr(remote_backend, "_PATIENCE", -1.0)
    async with answering(lambda request: ScriptedAnswer(200, data, EVENTS)) as log:
        with pytest.raises(Unreachable, match="no headwater server"):
            await first(log)


@pytest.mark.parametrize("url", ["http://", "http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:abc", "http://\0"])
async def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadConfig, match="no address of a server"):
        remote_log(url, token=None, clock=SystemClock())


@pytest.mark.parametrize("token", ["secret\n", "se cret", "secret\r\nX: y", "secrét", "\u2013secret"])
async def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(BadConfig, match="cannot be sent") as refused:
        remote_log("http://server", token=token, clock=SystemClock())
    assert "secr" not in str(refused.value)


class _Restarted:
    """A server that sends a record, is killed an hour later, is away for a while, and sends the next one."""

    def __init__(self, clock: HandClock, away: float) -> None:
        self._clock, self._away, self._asked = clock, away, 0
        self.starts: list[str] = []

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer | None:
        self._asked += 1
        self.starts.append(request.params["from"])
        if self._asked == 1:
            return ScriptedAnswer(headers=EVENTS, pieces=[b'data: {"offset": 0, "value": "a"}\n\n'], meanwhile=self._hour)
        if self._asked < 4:
            self._clock.seconds += self._away / 2
            return None
        return ScriptedAnswer(headers=EVENTS, pieces=[b'data: {"offset": 1, "value": "b"}\n\n'])

    def _hour(self) -> None:
        self._clock.seconds += 3600


async def test_a_tail_of_an_hour_waits_for_its_server_as_a_young_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_backend, "_AGAIN", 0.0)
    server = _Restarted(clock := HandClock(), away=20)
    async with answering(server, clock) as log:
        tail = log.tail("t", 0, 0)
        assert [(await anext(tail)).value for _ in range(2)] == [b"a", b"b"]
    assert server.starts == ["0", "1", "1", "1"]


async def test_a_tail_gives_up_a_server_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_backend, "_AGAIN", 0.0)
    async with answering(_Restarted(clock := HandClock(), away=100), clock) as log:
        tail = log.tail("t", 0, 0)
        assert (await anext(tail)).value == b"a"
        with pytest.raises(Unavailable):
            await anext(tail)


async def test_a_tail_gives_up_a_server_whose_streams_break_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_backend, "_AGAIN", 0.0)
    clock, asked = HandClock(), []

    def broken(request: ScriptedRequest) -> ScriptedAnswer:
        asked.append(request)
        clock.seconds += 1
        return ScriptedAnswer(200, b"data: {\n\n", EVENTS)

    async with answering(broken, clock) as log:
        with pytest.raises(Unreachable, match="no headwater server"):
            await first(log)
    assert 30 <= len(asked) <= 40


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_change_that_a_proxy_says_nothing_of_may_have_been_done(status: int) -> None:
    async with answering(lambda request: ScriptedAnswer(status, b"<html>Bad Gateway</html>")) as log:
        for change in CHANGES:
            with pytest.raises(OutcomeUnknown, match=f"status {status}"):
                await change(log)
        for read in READS:
            with pytest.raises(Unavailable) as raised:
                await read(log)
            assert not isinstance(raised.value, OutcomeUnknown)
