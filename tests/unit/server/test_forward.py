"""Requests that another worker answers: what goes there, what comes back, and what is told when it is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater import parts
from headwater.client.http_protocol import Exchange
from headwater.core.errors import HeadwaterError
from headwater.core.metrics import HttpMetrics
from headwater.core.settings import ServerSettings
from headwater.core.unix_socket import listen_unix
from headwater.documents.homes import PartitionHomes
from headwater.server import pass_on
from headwater.server.connections import Connections, Limits
from headwater.server.forward import Forwarding
from headwater.server.http_server import HttpServer
from headwater.server.problem import problem_answer
from headwater.server.route import Route
from headwater.server.team import Team

pytestmark = pytest.mark.anyio
OWNED = "/pipelines/{pipeline}"
ROUTES = [Route(operation, None) for operation in parts.operations()]  # type: ignore[arg-type]


class Owner:
    """The worker that owns: notes what it is asked, and answers as it is told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, bytes, bytes]] = []
        self.accepted: list[bytes] = []
        self.status, self.chunks, self.hangs = 200, [b"owner"], False
        self.came = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        host = dict(scope["headers"]).get(b"x-mine", b"")
        self.accepted.append(dict(scope["headers"]).get(b"accept", b""))
        self.asked.append((scope["method"], scope["raw_path"] + b"?" + scope["query_string"], body, host))
        self.came.set()
        if self.hangs:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.came.set()
            return
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"x-theirs", b"yes")]})
        for chunk in self.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Here:
    """The application of this worker: admits what it is told to, and notes what it refuses."""

    def __init__(self, *, admits: bool = True) -> None:
        self._admits = admits
        self.refused: list[HeadwaterError] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})

    def admits(self, scope: Any, receive: Any) -> bool:
        return self._admits

    async def refuse(self, error: HeadwaterError, scope: Any, receive: Any, send: Any, *, began: float) -> None:
        self.refused.append(error)
        await problem_answer(error, "id")(scope, receive, send)


class Backend:
    """The parts of this worker: which of two workers performs an operation on documents is told by a name."""

    homes: PartitionHomes | None = PartitionHomes({}, lambda partition: partition)

    def performer(self, part: str) -> Any:
        return self

    async def opened(self) -> Any:
        return self

    topic = "t"

    def partition_of(self, uri: str) -> int:
        return 0 if uri.startswith("there") else 1


@asynccontextmanager
async def forwarding(folder: Path, owner: Owner | None, *, max_body: int = 1000, here: Here | None = None) -> AsyncIterator[Forwarding]:
    team = Team(folder, slot=1, size=2)
    team.folder.mkdir(exist_ok=True)
    made = Forwarding(here or Here(), ROUTES, team=team, backend=Backend(), max_body=max_body)  # type: ignore[arg-type]
    if owner is None:
        yield made
        return
    limits = Limits.of(ServerSettings(), descriptors=100)
    server = HttpServer(owner, connections=Connections(limits, HttpMetrics()), ids=lambda: "id", grace=1)
    sock = listen_unix(team.folder, team.socket(0).name)
    assert sock is not None
    serving = asyncio.create_task(server.serve([sock]))
    await server.listening.wait()
    try:
        yield made
    finally:
        made.close()
        server.stop()
        await serving


class Client:
    """One request, as uvicorn gives it to an application."""

    def __init__(self, method: str = "GET", path: str = "/pipelines/p", query: bytes = b"", headers: Any = (), body: bytes = b"") -> None:
        raw = path.encode()
        self.scope = {"type": "http", "method": method, "raw_path": raw, "path": path, "query_string": query, "headers": list(headers)}
        self._sent = [{"type": "http.request", "body": body, "more_body": False}]
        self.left, self.messages = asyncio.Event(), list[Any]()

    async def receive(self) -> Any:
        if self._sent:
            return self._sent.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.messages.append(message)

    async def ask(self, app: Forwarding) -> tuple[int, bytes]:
        await app(self.scope, self.receive, self.send)  # type: ignore[arg-type]
        return self.messages[0]["status"], b"".join(message.get("body", b"") for message in self.messages[1:])


def code(body: bytes) -> str:
    return str(msgspec.json.decode(body)["code"])


async def test_only_what_the_owner_does_goes_there(tmp_path: Path) -> None:
    owner = Owner()
    async with forwarding(tmp_path, owner) as app:
        for path in ("/log", "/log/t/0/records", "/none", "/healthz"):
            assert await Client(path=path).ask(app) == (200, b"here")
        assert await Client("BREW", "/pipelines").ask(app) == (200, b"here")
        assert owner.asked == []
        for path in ("/pipelines", "/pipelines/p"):
            assert await Client(path=path).ask(app) == (200, b"owner")
        asynchronous = [(b"prefer", b"Respond-Async")]
        assert await Client("POST", "/log/t/0/compact", headers=asynchronous).ask(app) == (200, b"owner")


async def test_what_one_worker_does_by_what_it_is_about_goes_to_that_one(tmp_path: Path) -> None:
    owner = Owner()
    async with forwarding(tmp_path, owner) as app:
        for method, path in [("GET", "indexes/{}~"), ("POST", "indexes/{}"), ("DELETE", "indexes/{}~/i"), ("PUT", "views/{}~")]:
            assert await Client(method, "/hyper-storage/" + path.format("there")).ask(app) == (200, b"owner")
            assert await Client(method, "/hyper-storage/" + path.format("here")).ask(app) == (200, b"here")
        for method, path in [("GET", "content/there"), ("PUT", "content/there"), ("GET", "feed/there"), ("GET", "views/there~")]:
            assert await Client(method, "/hyper-storage/" + path).ask(app) == (200, b"here"), "any worker does this"


async def test_the_request_and_the_answer_travel_whole(tmp_path: Path) -> None:
    owner = Owner()
    owner.status, owner.chunks = 404, [b"one", b"two" * 50_000]
    async with forwarding(tmp_path, owner) as app:
        headers = [(b"x-mine", b"a"), (b"connection", b"close"), (b"content-length", b"999"), (b"expect", b"100-continue")]
        client = Client("GET", "/pipelines/a%2Fb", b"x=1", headers, b"body")
        assert await client.ask(app) == (404, b"".join(owner.chunks))
        assert (b"x-theirs", b"yes") in client.messages[0]["headers"]
        assert owner.asked == [("GET", b"/pipelines/a%2Fb?x=1", b"body", b"a")]
        assert (await Client().ask(app))[0] == 404  # the connection is used again


async def test_a_body_that_is_too_large_is_refused_here(tmp_path: Path) -> None:
    owner = Owner()
    async with forwarding(tmp_path, owner, max_body=10) as app:
        status, body = await Client(body=b"x" * 11).ask(app)
        assert (status, code(body)) == (413, "too-large")
        assert owner.asked == []


async def test_a_body_that_is_announced_as_too_large_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    here = Here()
    async with forwarding(tmp_path, Owner(), max_body=10, here=here) as app, asyncio.timeout(60):
        client = Client("POST", "/queues/q/rows", headers=[(b"content-length", b"1000000000")])
        client._sent.clear()  # nothing of it comes
        status, body = await client.ask(app)
        assert (status, code(body)) == (413, "too-large")
        assert [error.code for error in here.refused] == ["too-large"]  # counted, and reported where it is a fault


async def test_what_is_not_admitted_is_answered_here_before_its_body_is_read(tmp_path: Path) -> None:
    owner = Owner()
    async with forwarding(tmp_path, owner, here=Here(admits=False)) as app, asyncio.timeout(60):
        client = Client("POST", "/queues/q/rows", headers=[(b"content-length", b"1000")])
        client._sent.clear()
        assert await client.ask(app) == (200, b"here")
        assert owner.asked == []


async def test_an_answer_may_take_as_long_as_the_owner_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim may wait for days, and a verification of a sink for hours."""
    given: list[float | None] = []
    monkeypatch.setattr(
        pass_on,
        "Exchange",
        lambda loop, *, patience, streamed: given.append(patience) or Exchange(loop, patience=patience, streamed=streamed),
    )
    async with forwarding(tmp_path, Owner()) as app:
        assert (await Client("POST", "/queues/q/claims").ask(app))[0] == 200
    assert given == [None]


async def test_events_are_not_followed_for_a_request_without_their_body(tmp_path: Path) -> None:
    owner = Owner()
    async with forwarding(tmp_path, owner) as app:
        for accepted in (b"text/event-stream", b"application/x-ndjson"):
            for method in ("GET", "HEAD"):
                await Client(method, "/journals/bank", headers=[(b"accept", accepted)]).ask(app)
    assert owner.accepted == [b"text/event-stream", b"", b"application/x-ndjson", b"application/x-ndjson"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_owner_that_is_away_is_told(method: str, tmp_path: Path) -> None:
    async with forwarding(tmp_path, None) as app:
        headers = [(b"prefer", b"respond-async")]
        status, body = await Client(method, "/log/t/0/compact", headers=headers).ask(app)
        assert (status, code(body)) == (503, "unavailable")


@pytest.mark.parametrize(("method", "expected"), [("GET", "unavailable"), ("POST", "outcome-unknown")])
async def test_an_owner_that_dies_under_a_change_leaves_its_outcome_unknown(method: str, expected: str, tmp_path: Path) -> None:
    async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    (tmp_path / "workers").mkdir()
    sock = listen_unix(tmp_path / "workers", "0.sock")
    assert sock is not None
    server = await asyncio.start_unix_server(dying, sock=sock)
    async with forwarding(tmp_path, None) as app:
        status, body = await Client(method, "/log/t/0/compact", headers=[(b"prefer", b"respond-async")]).ask(app)
        assert (status, code(body)) == (503, expected)
        app.close()
    server.close()


async def test_an_answer_that_breaks_off_is_not_ended_as_a_whole_one(tmp_path: Path) -> None:
    async def breaking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    (tmp_path / "workers").mkdir()
    sock = listen_unix(tmp_path / "workers", "0.sock")
    assert sock is not None
    server = await asyncio.start_unix_server(breaking, sock=sock)
    async with forwarding(tmp_path, None) as app:
        client = Client()
        await client.ask(app)  # without an error, of which the server's log would show the way through the code
        assert [message.get("status", message.get("body")) for message in client.messages] == [200, b"half"]
        assert [message.get("more_body", True) for message in client.messages] == [True] * len(client.messages)
        app.close()
    server.close()


async def test_a_client_that_leaves_is_left_at_the_owner_too(tmp_path: Path) -> None:
    owner = Owner()
    owner.hangs = True
    async with forwarding(tmp_path, owner) as app, asyncio.timeout(60):
        client = Client()
        asking = asyncio.create_task(app(client.scope, client.receive, client.send))  # type: ignore[arg-type]
        await owner.came.wait()
        owner.came.clear()
        client.left.set()
        await asking
        await owner.came.wait()
        assert client.messages == []


async def test_a_client_that_leaves_before_its_request_is_whole_asks_nothing(tmp_path: Path) -> None:
    owner = Owner()
    async with forwarding(tmp_path, owner) as app:
        client = Client()
        client._sent.clear()
        client.left.set()
        await app(client.scope, client.receive, client.send)  # type: ignore[arg-type]
        assert owner.asked == []
        assert client.messages == []
