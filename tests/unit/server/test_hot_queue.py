"""The hot requests of one connection: repeated heads, order, and what ends or slows a client down."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.client.local import LocalLog, local_log
from headwater.core.errors import DiskFull
from headwater.core.metrics import HttpMetrics
from headwater.core.settings import ServerSettings, Settings
from headwater.log.record import Record
from headwater.server.app import App
from headwater.server.auth import Tokens
from headwater.server.connections import Connections, Limits
from headwater.server.hot import HotPath
from headwater.server.http_server import HttpServer
from headwater.testing.app import app_over
from headwater.testing.clock import ManualClock
from headwater.testing.sockets import listening

pytestmark = pytest.mark.anyio
QUICK = 60  # appends after which a disk is known to be quick
WRITER, READER = "w" * 20, "r" * 20
Ask = Callable[[bytes, int], Awaitable[list[bytes]]]


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    """A log whose clock stands still, so that its disk is quick."""
    opened = local_log(Settings(), tmp_path / "data", ManualClock(wakes=False))
    await opened.create_topic("t")
    for _ in range(QUICK):
        await opened.append("t", 0, [Record(None, b"before")])
    yield opened
    await opened.aclose()


def append(value: object, headers: bytes = b"") -> bytes:
    body = b'{"value": "%b"}' % str(value).encode()
    return b"POST /log/t/0/records HTTP/1.1\r\nHost: h\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        headers,
        len(body),
        body,
    )


class Watched:
    """A hot path that notes which requests it admitted by their headers, and which it began; alone or not."""

    def __init__(self, path: HotPath) -> None:
        self._path, self.admitted, self.begun = path, 0, list[bool]()
        self.find, self.readmit, self.answer, self.largest = path.find, path.readmit, path.answer, path.largest

    def admit(self, *given: Any) -> Any:
        self.admitted += 1
        return self._path.admit(*given)

    def begin(self, *given: Any, alone: bool) -> Any:
        begun = self._path.begin(*given, alone=alone)
        if begun is not None:
            self.begun.append(alone)
        return begun


@asynccontextmanager
async def connected(app: App, hot: Watched | None = None) -> AsyncIterator[Ask]:
    """One connection: sends bytes, and gives so many answers."""
    connections = Connections(Limits.of(ServerSettings(), descriptors=100), HttpMetrics())
    server = HttpServer(app, connections=connections, ids=lambda: "id", grace=1, hot=hot or app.hot)  # type: ignore[arg-type]
    async with listening(server) as address:
        reader, writer = await asyncio.open_connection(*address)

        async def ask(sent: bytes, count: int) -> list[bytes]:
            writer.write(sent)
            got = []
            for _ in range(count):
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head)
                got.append(head + await reader.readexactly(int(length[1]) if length else 0))
            return got

        try:
            yield ask
        finally:
            writer.close()


def offsets(answers: list[bytes]) -> list[int]:
    return [int(found[1]) for answer in answers if (found := re.search(rb'"offsets":\[(\d+)\]', answer))]


async def values(log: LocalLog) -> list[bytes | None]:
    return [record.value for record in await log.read("t", 0, QUICK)]


async def test_a_repeated_head_is_not_checked_again_and_answers_the_same(log: LocalLog) -> None:
    app = app_over(log)
    hot = Watched(app.hot)
    async with connected(app, hot) as ask:
        got = [(await ask(append(number), 1))[0] for number in range(5)]
    assert hot.admitted == 2, "the first of a connection, and the one whose head was learnt"
    assert hot.begun == [False, False, True, True, True]
    assert offsets(got) == [QUICK + number for number in range(5)]
    assert len({re.sub(rb"date: [^\r]*|\[\d+\]", b"", answer) for answer in got}) == 1
    assert await values(log) == [b"%d" % number for number in range(5)]


async def test_pipelined_requests_are_answered_in_order_whichever_way_each_takes(log: LocalLog) -> None:
    app = app_over(log)
    health = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
    async with connected(app) as ask:
        for number in range(3):
            await ask(append(number), 1)
        sent = [append(3), append(4), health, append(5), append("six", b"X-Other: 1\r\n"), append(7)]
        got = await ask(b"".join(sent), len(sent))
        assert [answer.split(b" ", 2)[1] for answer in got] == [b"201", b"201", b"200", b"201", b"201", b"201"]
        assert offsets(got) == [QUICK + number for number in (3, 4, 5, 6, 7)]
        assert offsets(await ask(append(8), 1)) == [QUICK + 8]
    assert await values(log) == [b"0", b"1", b"2", b"3", b"4", b"5", b"six", b"7", b"8"]


async def test_a_request_alone_does_not_overtake_those_in_the_queue(log: LocalLog, monkeypatch: pytest.MonkeyPatch) -> None:
    appender, release = log.appender("t", 0), asyncio.Event()
    assert appender is not None
    queued = appender._append

    def slow(records: object) -> object:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(60)
        return queued(records)  # type: ignore[arg-type]

    loop = asyncio.get_running_loop()
    async with connected(app_over(log)) as first, connected(app_over(log)) as second:
        for number in range(3):
            await first(append(number), 1)
            await second(append(number), 1)
        monkeypatch.setattr(appender, "_append", slow)
        waiting = asyncio.create_task(first(append("a") + append("b"), 2))  # together: by a thread
        while appender._idle:
            await asyncio.sleep(0)
        alone = asyncio.create_task(second(append("c"), 1))
        while len(appender._queue) == 0:
            await asyncio.sleep(0)
        release.set()
        assert offsets(await waiting) == [QUICK + 6, QUICK + 7]
        assert offsets(await alone) == [QUICK + 8]
    assert (await values(log))[-3:] == [b"a", b"b", b"c"]


async def test_a_repeated_request_in_pieces_is_one_request(log: LocalLog) -> None:
    async with connected(app_over(log)) as ask:
        for number in range(3):
            await ask(append(number), 1)
        for cut in range(1, len(append("pieces")), 9):
            await ask(append("pieces")[:cut], 0)
            await asyncio.sleep(0)
            assert len(await ask(append("pieces")[cut:] + append("more"), 2)) == 2
    found = (await values(log))[3:]
    assert found == [b"pieces", b"more"] * (len(found) // 2)
    assert len(found) == 2 * len(range(1, len(append("pieces")), 9))


async def test_a_removed_token_is_refused_at_its_next_request(log: LocalLog, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"writer {WRITER}\n")
    file.chmod(0o600)
    tokens = Tokens.load(file)
    bearer = b"Authorization: Bearer %b\r\n" % WRITER.encode()
    async with connected(app_over(log, tokens=tokens)) as ask:
        for number in range(4):
            assert offsets(await ask(append(number, bearer), 1))
        file.write_text(f"reader {WRITER}\n")
        tokens.renew()
        (lesser,) = await ask(append(4, bearer), 1)
        assert lesser.startswith(b"HTTP/1.1 403 ")
        file.write_text(f"writer {READER}\n")
        tokens.renew()
        (unknown,) = await ask(append(5, bearer), 1)
        assert unknown.startswith(b"HTTP/1.1 401 ")
    assert len(await values(log)) == 4


async def test_another_token_on_the_same_connection_is_checked(log: LocalLog, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"writer {WRITER}\nreader {READER}\n")
    file.chmod(0o600)
    async with connected(app_over(log, tokens=Tokens.load(file))) as ask:
        statuses = []
        for token in [WRITER] * 3 + [READER, WRITER, READER, WRITER]:
            (answer,) = await ask(append(1, b"Authorization: Bearer %b\r\n" % token.encode()), 1)
            statuses.append(answer.split(b" ", 2)[1])
        assert statuses == [b"201"] * 3 + [b"403", b"201", b"403", b"201"]


@pytest.mark.parametrize("error", [DiskFull("Full.", hint="h"), ValueError("fault")])
async def test_an_error_of_an_inline_append_is_answered_as_on_the_long_way(
    error: Exception, log: LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    appender = log.appender("t", 0)
    assert appender is not None

    def failing(records: object) -> Any:
        raise error

    async def refused(*given: object) -> Any:
        raise error

    app = app_over(log)
    async with connected(app) as ask:
        for number in range(3):
            await ask(append(number), 1)
        monkeypatch.setattr(appender, "append_inline", failing)
        (short,) = await ask(append(3), 1)
        monkeypatch.setattr(log, "append", refused)
        (long,) = await ask(append(3, b"X-Other: 1\r\n"), 1)
        assert re.sub(rb"date: [^\r]*", b"", short) == re.sub(rb"date: [^\r]*", b"", long)
        monkeypatch.undo()
        assert offsets(await ask(append(4), 1))


async def test_a_client_that_reads_nothing_is_not_read_from_for_ever(log: LocalLog) -> None:
    app = app_over(log)
    connections = Connections(Limits.of(ServerSettings(), descriptors=100), HttpMetrics())
    server = HttpServer(app, connections=connections, ids=lambda: "id", grace=1, hot=app.hot)
    async with listening(server) as address:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(address)
            client.setblocking(False)
            requests, sent, full = append("x") * 100, 0, 0
            while not server.server_state.connections:
                await asyncio.sleep(0)
            (held,) = server.server_state.connections
            held.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # else it takes megabytes
            while full < 200:  # turns of the loop in which the server took nothing
                try:
                    sent += client.send(requests[sent % len(requests) :])  # a socket may take part of a request
                    full = 0
                except BlockingIOError:
                    full += 1
                except (ConnectionResetError, BrokenPipeError):
                    break  # the server has cut it off, because so many requests wait
                await asyncio.sleep(0)
            assert sent < 50 << 20
            assert held.transport.get_write_buffer_size() < 1 << 20


async def test_who_leaves_has_its_appends_done(log: LocalLog) -> None:
    app = app_over(log)
    async with connected(app) as ask:
        for number in range(3):
            await ask(append(number), 1)
        await ask(append("left") * 5, 0)
        while (await log.bounds("t", 0)).end < QUICK + 8:
            await asyncio.sleep(0)
    assert (await values(log))[3:] == [b"left"] * 5
