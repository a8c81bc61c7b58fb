"""Connections to a server: what is shared, what is sent again, and what every way of breaking off means."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headwater.client import http_pool
from headwater.client.http import HttpConnection
from headwater.core.errors import BadConfig, BadInput, Closed, NotFound, OutcomeUnknown, Timeout, Unreachable
from headwater.testing.scripted import ScriptedAnswer, ScriptedRequest, scripted

pytestmark = pytest.mark.anyio
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(path: Path, talk: Talk) -> AsyncIterator[HttpConnection]:
    """A connection to a Unix socket behind which a function speaks."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, path)
    http = HttpConnection("http://server", token="secret", unix=path, only_unix=True)
    try:
        yield http
    finally:
        await http.aclose()
        server.close()


async def head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def hot(http: HttpConnection, number: int) -> bytes:
    return await http.ask("POST", f"/{number}", headers={"X": str(number)}, hot=True)


async def test_hot_requests_share_a_connection_and_get_their_own_answers(tmp_path: Path) -> None:
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        first = await head(reader)
        seen = [first]
        while len(seen) < 20 and len(connections) == 1:  # nothing is answered before all of them are there
            seen.append(await head(reader))
        for one in seen:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%02d" % int(one.split(b" ")[1][1:]))

    async with talking(tmp_path / "s", talk) as http:
        async with asyncio.timeout(20):
            first = asyncio.ensure_future(hot(http, 0))
            await asyncio.sleep(0)
            while not http._pool._open:
                await asyncio.sleep(0)
            got = await asyncio.gather(first, *(hot(http, number) for number in range(1, 20)))
    assert got == [b"%02d" % number for number in range(20)]
    assert len(connections) == 1


async def test_a_connection_that_dies_with_changes_under_way_tells_each_of_them(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(5):
            asked.append(await head(reader))
        writer.write(OK + OK[:20])  # one answer and a piece of the next

    async with talking(tmp_path / "s", talk) as http:
        got = await asyncio.gather(*(hot_after(http, number) for number in range(5)), return_exceptions=True)
    assert got[0] == b"ok"
    assert [type(error) for error in got[1:]] == [OutcomeUnknown] * 4
    assert len(asked) == 5, "no change is sent a second time"


async def hot_after(http: HttpConnection, number: int) -> bytes:
    """Each begins when the connection is there."""
    if number:
        while not http._pool._open:
            await asyncio.sleep(0)
    return await hot(http, number)


@pytest.mark.parametrize(("method", "headers", "again"), [("GET", {}, 1), ("POST", {}, 0), ("POST", {"Idempotency-Key": "k"}, 1)])
async def test_only_what_is_safe_is_sent_again_on_a_connection_that_was_kept(
    method: str, headers: dict[str, str], again: int, tmp_path: Path
) -> None:
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked.append(await head(reader))
            if len(asked) == 2:
                return  # a connection that was kept ends under the second request
            writer.write(OK)

    async with talking(tmp_path / "s", talk) as http:
        await http.ask("GET", "/first")
        if again:
            assert await http.ask(method, "/second", headers=headers) == b"ok"
        else:
            with pytest.raises(OutcomeUnknown):
                await http.ask(method, "/second", headers=headers)
    assert len(asked) == 2 + again


async def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "_FRESH", -1.0)
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await head(reader))
        writer.write(OK)

    async with talking(tmp_path / "s", talk) as http:
        for number in range(3):
            assert await http.ask("POST", f"/{number}") == b"ok"
    assert len(asked) == 3


ODD = {
    "no http": b"SSH-2.0-OpenSSH\r\n",
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    "one endless header": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhi",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
}


@pytest.mark.parametrize("sent", ODD.values(), ids=ODD)
async def test_what_is_no_answer_is_said_by_name(sent: bytes, tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(sent)
        await reader.read()

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(20):
        with pytest.raises(Unreachable, match="no headwater server"):
            await http.ask("GET", "/")
        with pytest.raises(OutcomeUnknown):
            await http.ask("POST", "/")


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc"),
        (b"HTTP/1.0 200 OK\r\n\r\nto the end", b"to the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
async def test_answers_of_every_shape_are_read_however_they_are_cut(sent: bytes, body: bytes, size: int, tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        for at in range(0, len(sent), size):
            writer.write(sent[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(20):
        assert await http.ask("GET", "/") == body


async def test_half_an_answer_and_an_end_is_no_answer(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(OK[:-1])
        writer.write_eof()  # half closed: it would still listen
        await reader.read()

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(20):
        with pytest.raises(Unreachable):
            await http.ask("GET", "/")
        with pytest.raises(OutcomeUnknown):
            await http.ask("POST", "/")


async def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(20):
        with pytest.raises(Timeout):
            await http.ask("GET", "/", patience=0.01)
        with pytest.raises(OutcomeUnknown):
            await http.ask("POST", "/", patience=0.01)


async def test_a_large_body_waits_for_a_server_that_reads_slowly_and_an_early_answer_ends_it(tmp_path: Path) -> None:
    large = os.urandom(1 << 20) * 8
    got: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            if b"/early" in await head(reader):
                writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
                await reader.read()
                return
            got.append(await reader.readexactly(len(large)))
            writer.write(OK)

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(30):
        assert await http.ask("POST", "/", content=large) == b"ok"
        assert got == [large]
        with pytest.raises(NotFound):
            await http.ask("POST", "/early", content=large)
        assert await http.ask("POST", "/", content=large) == b"ok"


async def test_a_slow_reader_of_a_stream_holds_up_the_server_and_not_the_memory(tmp_path: Path) -> None:
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for _ in range(2000):
            writer.write(b"data: %b\n\n" % (b"x" * 10_000))
            await writer.drain()
            sent += 1

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(60), http.events("/") as events:
        first = await anext(events)
        for _ in range(2000):
            await asyncio.sleep(0)
        assert sent < 1000, "the rest waits at the server"
        count = 1
        async for event in events:
            assert event.data == first.data
            count += 1
    assert count == 2000


async def test_a_call_that_is_given_up_leaves_no_answer_for_the_next(tmp_path: Path) -> None:
    came, given_up = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = await head(reader)
            if b"/slow" in asked:
                came.set()
                await given_up.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%b" % (b"slow" if b"/slow" in asked else b"fast"))

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(20):
        for _ in range(5):
            slow = asyncio.create_task(http.ask("POST", "/slow", hot=True))
            await came.wait()
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            given_up.set()
            assert slow.cancelled()
            assert await http.ask("POST", "/fast", hot=True) == b"fast"
            came.clear()
            given_up.clear()


MORE = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nwro",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"H",
)


@pytest.mark.parametrize("more", MORE)
async def test_what_comes_behind_the_last_answer_is_no_part_of_the_next(more: bytes, tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(OK + more)
        await head(reader)
        writer.write(b"\r\nwrong")

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(20):
        assert await http.ask("GET", "/") == b"ok"
        assert await http.ask("POST", "/") == b"ok"  # through another connection


async def test_a_header_cannot_smuggle_another_request(tmp_path: Path) -> None:
    async with scripted(lambda request: ScriptedAnswer()) as url:
        http = HttpConnection(url, token=None)
        for value in ("a\r\nX: y", "a\nb", "\0", "\u2013"):
            with pytest.raises(BadInput, match="cannot be sent"):
                await http.ask("GET", "/", headers={"Idempotency-Key": value})
        await http.aclose()
        with pytest.raises(Closed):
            await http.ask("GET", "/")


async def test_an_address_holds_nothing_that_would_be_ignored() -> None:
    for url in ("http://anna:secret@host:1", "http://anna@host:1"):
        with pytest.raises(BadConfig, match="no name and no password") as refused:
            HttpConnection(url, token=None)
        assert "anna" not in str(refused.value)
        assert "secret" not in str(refused.value)
    for url in ("http://host:1?topic=x", "http://host:1/#x"):
        with pytest.raises(BadConfig, match="no address of a server"):
            HttpConnection(url, token=None)


async def test_the_token_and_the_host_are_sent(tmp_path: Path) -> None:
    seen: list[ScriptedRequest] = []

    def note(request: ScriptedRequest) -> ScriptedAnswer:
        seen.append(request)
        return ScriptedAnswer()

    async with scripted(note) as url:
        http = HttpConnection(url + "/below/", token="secret")
        await http.ask("POST", "/a%2Fb", params={"q": "ä &"}, content=b"x")
        await http.aclose()
    assert seen[0].target == "/below/a%2Fb?q=%C3%A4+%26"
    assert seen[0].headers["authorization"] == "Bearer secret"
    assert seen[0].headers["host"] == url.removeprefix("http://")


async def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        began.set()
        await reader.read()

    async with talking(tmp_path / "s", talk) as http, asyncio.timeout(20):
        waiting = asyncio.ensure_future(http.ask("GET", "/"))
        await began.wait()
        await http.aclose()
        with pytest.raises(Closed):
            await waiting


async def test_without_its_socket_the_port_is_used(tmp_path: Path) -> None:
    async with scripted(lambda request: ScriptedAnswer(200, b"port")) as url:
        http = HttpConnection(url, token=None, unix=tmp_path / "none")
        assert await http.ask("GET", "/") == b"port"
        await http.aclose()


async def test_the_port_is_used_only_while_the_same_server_listens_there(tmp_path: Path) -> None:
    same = True
    async with scripted(lambda request: ScriptedAnswer(200, b"port", headers={"Connection": "close"})) as url:
        http = HttpConnection(url, token=None, unix=tmp_path / "none", same=lambda: same)
        assert await http.ask("GET", "/") == b"port"
        same = False
        for method in ("GET", "POST"):
            with pytest.raises(Unreachable, match="has ended"):
                await http.ask(method, "/")
        same = True
        assert await http.ask("GET", "/") == b"port"
        await http.aclose()


async def test_a_socket_that_comes_back_is_used_again(tmp_path: Path) -> None:
    async with scripted(lambda request: ScriptedAnswer(200, b"port", headers={"Connection": "close"})) as url:
        http = HttpConnection(url, token=None, unix=tmp_path / "s")
        assert await http.ask("GET", "/") == b"port"

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await head(reader)
            writer.write(OK)

        async with talking(tmp_path / "s", talk):
            assert await http.ask("GET", "/") == b"ok"
        await http.aclose()


async def test_a_server_that_says_nothing_does_not_answer_and_one_that_hangs_up_does(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def short(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)

    async def missing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n")

    async with talking(tmp_path / "silent", silent) as http:
        assert not await http.answers(patience=0.05)
    async with talking(tmp_path / "short", short) as http:
        assert await http.answers(patience=30)
    async with talking(tmp_path / "missing", missing) as http:
        assert await http.answers(patience=30)


async def test_the_reason_of_an_ended_handshake_is_told() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(end, "127.0.0.1", 0)
    async with server:
        http = HttpConnection(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", token=None)
        with pytest.raises(Unreachable) as no:
            await http.ask("GET", "/")
        assert "()" not in no.value.message
        await http.aclose()
