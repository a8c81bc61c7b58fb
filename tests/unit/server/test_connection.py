"""A connection held to its limits: over real sockets, with the time given by hand."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from headwater.core.metrics import HttpMetrics
from headwater.core.settings import ServerSettings
from headwater.server.connection import Connection
from headwater.server.connections import STUCK, Connections, Limits

pytestmark = pytest.mark.anyio
HOST = b"Host: x\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
LIMITS = Limits.of(ServerSettings(), descriptors=10_000)
LATER = 1000.0  # seconds: beyond every limit of time


class Served:
    """An application over connections, and what they counted. It answers with the length of the body, or as much as it is told."""

    def __init__(self, limits: Limits) -> None:
        self.metrics = HttpMetrics()
        self.connections = Connections(limits, self.metrics)
        self.answer = b""
        self.pieces = 1
        self.headers: list[tuple[bytes, bytes]] = []
        self.disconnected = asyncio.Event()
        self.hold: asyncio.Event | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnected.set()
                return
            length += len(message["body"])
            if not message["more_body"]:
                break
        self.headers = scope["headers"]
        if self.hold is not None:
            await self.hold.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(self.pieces):
            await send({"type": "http.response.body", "body": self.answer or b"%d." % length, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def look(self, seconds: float) -> None:
        self.connections.look(asyncio.get_running_loop().time() + seconds)

    def refused(self) -> dict[str, float]:
        [family] = [one for one in self.metrics.families() if one.name == "headwater_http_refused"]
        return {sample.labels["reason"]: sample.value for sample in family.samples if sample.name.endswith("_total")}


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], "asyncio.Future[Client]"]


@asynccontextmanager
async def serving(**changes: float) -> AsyncIterator[tuple[Served, Connect]]:
    served = Served(msgspec.structs.replace(LIMITS, **changes))
    config = uvicorn.Config(served.app, interface="asgi3", loop="none", ws="none", lifespan="off", log_config=None, proxy_headers=False)
    config.load()
    make = functools.partial(Connection, config, ServerState(), {}, connections=served.connections, ids=lambda: "id")
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        return reader, writer

    try:
        yield served, lambda: asyncio.ensure_future(connect())
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the connection ends."""
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionResetError:
        return b"reset"


async def received(served: Served, count: int = 1) -> None:
    """Until so many connections are open and the server has read what they sent."""
    async with asyncio.timeout(30):
        while served.metrics.connections < count:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0.001)


async def connections_left(served: Served, count: int) -> None:
    async with asyncio.timeout(30):
        while served.metrics.connections > count:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * 40_000,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 2000 + b"\r\n",
        b"\r\n" * 20_000,
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\nX: " + b"a" * 300_000,
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 300_000,
    ],
)
async def test_a_head_without_end_is_answered_431(sent: bytes) -> None:
    async with serving() as (served, connect):
        reader, writer = await connect()
        writer.write(sent)
        text = await answer(reader)
        assert text.startswith(b"HTTP/1.1 431 ")
        assert b'"code":"head-too-large"' in text
        assert served.refused() == {"header-size": 1}


async def test_a_head_at_the_limit_is_taken() -> None:
    async with serving(header=200) as (_, connect):
        reader, writer = await connect()
        fits = 200 - len("/") - len("Host" + "x") - len("X") - 2 * 32
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * fits + b"\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (fits + 1) + b"\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 431")


async def test_trailers_are_no_headers() -> None:
    async with serving() as (served, connect):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\nAuthorization: y\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert [name for name, _ in served.headers] == [b"host", b"transfer-encoding"]


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHo", b"\r\n", GET + b"GET"])
async def test_a_slow_head_is_answered_408_or_cut(sent: bytes) -> None:
    async with serving() as (served, connect):
        reader, writer = await connect()
        writer.write(sent)
        await received(served)
        served.look(19.0)
        assert served.refused() == {}
        served.look(LATER)
        assert b"HTTP/1.1 408 Request Timeout\r\n" in await answer(reader)
        assert served.refused() == {"header-time": 1}


async def test_who_says_nothing_is_cut_without_a_word() -> None:
    async with serving() as (served, connect):
        reader, _ = await connect()
        await received(served)
        served.look(LATER)
        assert await answer(reader) in (b"", b"reset")
        assert served.refused() == {"header-time": 1}


async def test_an_idle_connection_between_requests_is_left_alone() -> None:
    async with serving() as (served, connect):
        reader, writer = await connect()
        for _ in range(2):
            writer.write(GET)
            await reader.readuntil(b"0\r\n\r\n")
            served.look(LATER)
        assert served.refused() == {}


async def test_a_slow_body_is_answered_408_and_given_up() -> None:
    async with serving(body_rate=100) as (served, connect):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + b"a" * 1000)
        await received(served)
        served.look(29.0)  # 20 s for any body, and 10 s for what came at 100 bytes a second
        assert served.refused() == {}
        served.look(31.0)
        assert (await answer(reader)).startswith(b"HTTP/1.1 408 ")
        assert served.refused() == {"body-time": 1}
        await served.disconnected.wait()


async def test_an_answer_under_way_takes_no_time_from_the_next_request() -> None:
    async with serving() as (served, connect):
        served.hold = asyncio.Event()
        reader, writer = await connect()
        writer.write(GET + b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12")
        await received(served)
        served.look(LATER)  # we do not read the second before the first is answered
        served.hold.set()
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"345")
        assert b"5." in await reader.readuntil(b"0\r\n\r\n")


async def test_pipelining_without_end_is_cut() -> None:
    async with serving() as (served, connect):
        served.hold = asyncio.Event()
        reader, writer = await connect()
        writer.write(GET * 101)
        await received(served)
        assert served.refused() == {}
        reader, writer = await connect()
        writer.write(GET * 102)
        assert await answer(reader) in (b"", b"reset")
        assert served.refused() == {"pipelined": 1}
        served.hold.set()


async def test_what_is_no_http_behind_a_running_answer_does_not_end_up_inside_it() -> None:
    async with serving() as (served, connect):
        served.hold = asyncio.Event()
        reader, writer = await connect()
        writer.write(GET)
        await received(served)
        writer.write(b"\x00\x01\r\n\r\n")
        assert await answer(reader) in (b"", b"reset")
        assert served.refused() == {"malformed": 1}


@pytest.mark.parametrize(("limit", "reason"), [("connections", "connections"), ("connections_per_address", "connections-per-address")])
async def test_one_connection_too_many_is_answered_503(limit: str, reason: str) -> None:
    async with serving(**{limit: 2}) as (served, connect):
        for _ in range(2):
            reader, writer = await connect()
            writer.write(GET)
            await reader.readuntil(b"0\r\n\r\n")
        third, _ = await connect()
        text = await answer(third)
        assert text.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5\r\n" in text
        assert served.refused() == {reason: 1}
        writer.close()
        await received(served)
        writer.transport.abort()
        await connections_left(served, 1)
        reader, writer = await connect()
        writer.write(GET)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_a_client_that_takes_nothing_is_cut() -> None:
    async with serving() as (served, connect):
        served.answer, served.pieces = bytes(65536), 1000
        _, writer = await connect()
        writer.transport.pause_reading()
        writer.write(GET)
        await received(served)
        served.look(0.0)
        served.look(59.0)
        assert served.refused() == {}
        served.look(61.0)
        assert served.refused() == {"send-time": 1}


async def test_a_client_that_takes_slowly_is_not() -> None:
    async with serving() as (served, connect):
        served.answer, served.pieces = bytes(65536), 1000
        reader, writer = await connect()
        writer.write(GET)
        for at in range(5):
            await received(served)
            served.look(at * 50.0)
            await reader.readexactly(8 << 20)
        assert served.refused() == {}


async def test_a_stopping_server_waits_no_minute_for_who_takes_nothing() -> None:
    async with serving() as (served, connect):
        served.answer, served.pieces = bytes(65536), 1000
        _, writer = await connect()
        writer.transport.pause_reading()
        writer.write(GET)
        await received(served)
        served.look(0.0)
        served.connections.stop()
        served.look(2.0)
        assert served.refused() == {"send-time": 1}


async def test_too_much_unread_costs_those_who_take_nothing_for_longest() -> None:
    async with serving(unsent=20 << 20) as (served, connect):
        served.answer = bytes(16 << 20)  # far more than the system takes for us
        for count in (1, 2):
            _, writer = await connect()
            writer.transport.pause_reading()
            writer.write(GET)
            await received(served, count)
            served.look(count * 1.0)
        served.look(STUCK)
        assert served.refused() == {}, "nobody is stuck for long enough"
        served.look(STUCK + 2.5)
        assert served.refused() == {"memory": 1}
        await connections_left(served, 1)


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
LAST = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("asked", "length"),
    [
        (b"GET / HTTP/1.1\r\n" + HOST + UPGRADE + b"\r\n", b"0."),
        (b"POST / HTTP/1.1\r\n" + HOST + UPGRADE + b"Content-Length: 0\r\n\r\n", b"0."),
        (b"POST / HTTP/1.1\r\n" + HOST + UPGRADE + b"Content-Length: 5\r\n\r\nGET /", b"5."),
        (b"POST / HTTP/1.1\r\n" + HOST + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(GET) + GET, b"%d." % len(GET)),
        (b"POST / HTTP/1.1\r\n" + HOST + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n", b"7."),
    ],
)
@pytest.mark.parametrize("pieces", ["whole", "split", "bytes"])
async def test_a_request_that_asks_for_another_protocol_keeps_its_body(asked: bytes, length: bytes, pieces: str) -> None:
    """curl --http2 and Java ask for one as a matter of course. A body that is not read as one would be read as the next request."""
    sent = asked + LAST
    head = asked.index(b"\r\n\r\n") + 4
    parts = {"whole": [sent], "split": [sent[:head], sent[head:]], "bytes": [sent[at : at + 1] for at in range(len(sent))]}[pieces]
    async with serving() as (served, connect):
        reader, writer = await connect()
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0)
        text = await answer(reader)
    assert text.count(b"HTTP/1.1 200 OK") == 2
    first, second = text.split(b"HTTP/1.1 200 OK")[1:]
    assert length in first
    assert b"0." in second
    assert served.refused() == {}


async def test_limits_hold_for_the_body_of_a_request_that_asks_for_another_protocol() -> None:
    async with serving() as (served, connect):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + UPGRADE + b"Content-Length: 50\r\n\r\nabc")
        await received(served)
        served.look(LATER)
        assert (await answer(reader)).startswith(b"HTTP/1.1 408 ")
        assert served.refused() == {"body-time": 1}


async def test_a_body_whose_end_nobody_can_find_is_refused_behind_an_upgrade_too() -> None:
    async with serving() as (served, connect):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + UPGRADE + b"Transfer-Encoding: gzip\r\n\r\nabc")
        await answer(reader)
        assert served.refused() == {"malformed": 1}
