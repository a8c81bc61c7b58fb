"""Changes that another server owns: what is sent there, what comes back, and when the client is told to ask there itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from headwater import parts
from headwater.core.errors import HeadwaterError, NotOwner
from headwater.core.metrics import HttpMetrics
from headwater.core.settings import ServerSettings
from headwater.server import owner_hop
from headwater.server.connections import Connections, Limits
from headwater.server.http_server import HttpServer
from headwater.server.owner_hop import HOP, OWNER, OwnerHop
from headwater.server.problem import problem_answer
from headwater.server.route import Route
from headwater.wire.problems import encoded, problem_of

pytestmark = pytest.mark.anyio
ROUTES = [Route(operation, None) for operation in parts.operations()]  # type: ignore[arg-type]
CONTENT = "/hyper-storage/content/a%20b"
Headers = list[tuple[bytes, bytes]]


class Server:
    """Answers with what it was asked, or 421 with the address of the owner. `reads`: whether it looks at the body."""

    def __init__(self, owner: str | None = None, *, reads: bool = True) -> None:
        self.owner, self.reads = owner, reads
        self.asked: list[tuple[str, bytes, bytes, Headers]] = []
        self.refused: list[HeadwaterError] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", self.reads
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.asked.append((scope["method"], scope["raw_path"] + b"?" + scope["query_string"], body, list(scope["headers"])))
        if self.owner is not None:
            await problem_answer(NotOwner("It is not here.", address=self.owner, hint="Ask there."), "id")(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 201, "headers": [(b"x-mine", b"yes")]})
        await send({"type": "http.response.body", "body": b"done: " + body})

    async def refuse(self, error: HeadwaterError, scope: Any, receive: Any, send: Any, *, began: float) -> None:
        self.refused.append(error)
        await problem_answer(error, "id")(scope, receive, send)


class Lines(Server):
    """Answers each line; those of which an address is given belong to another server."""

    def __init__(self, *owners: str) -> None:
        super().__init__()
        self._owners = owners

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.asked.append((scope["method"], scope["raw_path"], body, list(scope["headers"])))
        lines = [line for line in body.splitlines() if line]
        owners = (*self._owners, *[self._owners[-1] if self._owners else ""] * len(lines))
        answers = [
            encoded(problem_of(NotOwner("Not here.", address=owner), "id")) if owner else b"did " + line
            for line, owner in zip(lines, owners, strict=False)
        ]
        answer = b"\n".join(answers)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]})
        await send({"type": "http.response.body", "body": answer})


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """Its address."""
    server = HttpServer(
        app, connections=Connections(Limits.of(ServerSettings(), descriptors=100), HttpMetrics()), ids=lambda: "id", grace=1
    )
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"
    serving = asyncio.create_task(server.serve([sock]))
    await server.listening.wait()
    try:
        yield address
    finally:
        server.stop()
        await serving


def hopping(app: Server, address: str = "http://127.0.0.1:1", lost: list[str] | None = None) -> OwnerHop:
    told = [] if lost is None else lost
    return OwnerHop(app, app, ROUTES, parts=["documents"], address=address, max_body=1000, lost=told.append)  # type: ignore[arg-type]


async def ask(
    app: Any, method: str = "PUT", path: str = CONTENT, *, bodies: tuple[bytes, ...] = (b"12", b"3"), headers: Headers | None = None
) -> tuple[int, bytes, dict[bytes, bytes]]:
    parts = [{"type": "http.request", "body": body, "more_body": number < len(bodies) - 1} for number, body in enumerate(bodies)]
    answer: list[Any] = []

    async def receive() -> Any:
        if parts:
            return parts.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        answer.append(message)

    scope = {"type": "http", "method": method, "raw_path": path.encode(), "path": path, "query_string": b"a=1"}
    await app({**scope, "headers": headers or [], "client": None, "state": {}}, receive, send)
    return answer[0]["status"], b"".join(message.get("body", b"") for message in answer), dict(answer[0]["headers"])


@pytest.mark.parametrize("reads", [True, False])
async def test_a_change_of_another_servers_goes_there_whole_and_so_does_its_answer(reads: bool) -> None:
    owner = Server()
    async with listening(owner) as address:
        app = hopping(Server(address, reads=reads))
        sent = [(b"authorization", b"Bearer t"), (b"host", b"here:1"), (b"idempotency-key", b"k"), (b"content-length", b"3")]
        status, body, headers = await ask(app, headers=sent)
        assert (status, body, headers[b"x-mine"], headers[OWNER]) == (201, b"done: 123", b"yes", address.encode())
        (method, target, came, seen) = owner.asked[0]
        assert (method, target, came) == ("PUT", CONTENT.encode() + b"?a=1", b"123")
        assert dict(seen)[b"authorization"] == b"Bearer t"
        assert dict(seen)[b"idempotency-key"] == b"k"
        assert dict(seen)[b"host"] == address.removeprefix("http://").encode()
        assert [value for name, value in seen if name == HOP] == [b"1"]
        app.close()


async def test_nothing_is_sent_on_twice() -> None:
    far = Server()
    async with listening(far) as third:
        lost = hopping(Server(third))
        async with listening(lost) as second:
            told = list[str]()
            app = hopping(Server(second), lost=told)
            status, body, _ = await ask(app)
            assert (status, msgspec.json.decode(body)["address"]) == (421, third)
            assert told == [second], "it is no owner"
            app.close()
        lost.close()
        assert far.asked == []


async def test_what_is_done_here_and_what_is_no_change_stays_here() -> None:
    here = Server()
    app = hopping(here)
    assert (await ask(app))[:2] == (201, b"done: 123")
    elsewhere = Server("http://127.0.0.1:9")
    app = hopping(elsewhere)
    for method, path in [("GET", CONTENT), ("POST", "/queues/q/rows"), ("POST", "/none")]:
        assert (await ask(app, method, path))[0] == 421


async def test_an_owner_that_is_away_or_has_no_address_or_is_this_server_is_the_clients_to_find() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}"
    told = list[str]()
    for owner in (away, "", "http://127.0.0.1:1"):
        status, body, _ = await ask(hopping(Server(owner), lost=told))
        assert (status, msgspec.json.decode(body).get("address", "")) == (421, owner)
    assert told == [away]


async def test_an_owner_that_dies_under_a_change_leaves_its_outcome_unknown() -> None:
    async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(dying, "127.0.0.1", 0)
    near = Server(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    app = hopping(near)
    status, body, _ = await ask(app)
    assert (status, msgspec.json.decode(body)["code"]) == (503, "outcome-unknown")
    assert [error.code for error in near.refused] == ["outcome-unknown"]
    app.close()
    server.close()


@pytest.mark.parametrize("batch", [False, True])
async def test_an_owner_that_hangs_is_given_up_after_a_while(batch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_hop, "_MORE", -29.99)  # of the 30 s of a write
    monkeypatch.setattr(owner_hop, "_LINES", 0.01)
    over = asyncio.Event()

    async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(hanging, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    app = hopping(Lines(address) if batch else Server(address))
    status, body, _ = await ask(app, "POST", "/hyper-storage/batch", bodies=(b"1\n2\n",)) if batch else await ask(app)
    answers = [msgspec.json.decode(line) for line in body.splitlines()]
    assert status == (200 if batch else 503)
    assert [answer["code"] for answer in answers] == ["outcome-unknown"] * (2 if batch else 1)
    assert "has not answered for 0.01 s" in answers[0]["detail"]
    over.set()
    app.close()
    server.close()


async def test_lines_of_several_owners_come_back_in_their_places() -> None:
    """One of them refuses its lines together, one cannot be reached, one answers with too few lines."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}"
    done, refusing = Lines(), Server("http://127.0.0.1:9")

    async def short(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"did"})

    async with listening(done) as one, listening(refusing) as two, listening(short) as three:
        near, told = Lines("", one, two, one, away, three, three), list[str]()
        app = hopping(near, lost=told)
        status, body, headers = await ask(app, "POST", "/hyper-storage/batch", bodies=(b"0\n1\n\n2\n3\n", b"4\n5\n6"))
        answers = body.splitlines()
        assert (status, int(headers[b"content-length"])) == (200, len(body))
        assert [answers[number] for number in (0, 1, 3)] == [b"did 0", b"did 1", b"did 3"]
        codes = {number: msgspec.json.decode(answers[number]) for number in (2, 4, 5, 6)}
        assert [(one["code"], one.get("address")) for one in codes.values()] == [
            ("not-owner", "http://127.0.0.1:9"),
            ("not-owner", away),
            ("outcome-unknown", None),
            ("outcome-unknown", None),
        ]
        assert [came for *_, came, _ in done.asked] == [b"1\n3"]
        assert set(told) == {two, away}
        app.close()
