"""The http adaptor against a server of the test's own."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from headwater.adaptors.http.adaptor import Http, http
from headwater.adaptors.http.sink import HttpWriter, WebhookClient
from headwater.core.errors import BadConfig, Denied, Rejected, Timeout, Unreachable
from headwater.pipeline.env import env
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part

Answers = Callable[[str, bytes], tuple[int, dict[str, str], bytes]]


@dataclass
class Hook:
    """A server that keeps what it gets. `answer` decides on each request by its path and body."""

    port: int = 0
    got: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    answer: Answers = lambda path, body: (204, {}, b"")
    holding: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, _, body in self.got]

    @property
    def keys(self) -> list[str]:
        return [headers["idempotency-key"] for _, _, headers, _ in self.got]


@pytest.fixture
def hook() -> Iterator[Hook]:
    kept = Hook()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            kept.got.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, headers, text = kept.answer(self.path, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("content-length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD" and status != 204:
                self.wfile.write(text)

        do_POST = do_PUT = do_HEAD = _take  # noqa: N815 (the names that http.server looks for)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield kept
    kept.holding.set()
    server.shutdown()
    server.server_close()
    thread.join()


def part(**changes: Any) -> Part:
    return msgspec.structs.replace(Part(pipeline="p", sink="s", start=0, end=1000), **changes)


def numbered(count: int) -> list[Message]:
    return [Message("shop.orders", {"_id": n, "n": n}, offset=n, timestamp=1000 + n) for n in range(count)]


def write(adaptor: Http, messages: list[Message], where: Part | None = None, waits: list[float] | None = None) -> None:
    with WebhookClient(adaptor) as poster:
        writer = HttpWriter(adaptor, where or part(), poster, wait=(waits if waits is not None else []).append)
        writer.write(Batch(start=messages[0].offset, end=messages[-1].offset + 1, messages=messages))


def test_each_message_is_posted_with_its_key(hook: Hook) -> None:
    write(http(hook.url), [*numbered(2), Message("shop.orders", {"_id": 0}, Op.DELETE, offset=2)])
    assert hook.bodies == [
        {"op": "insert", "namespace": "shop.orders", "timestamp": 1000, "offset": 0, "data": {"_id": 0, "n": 0}},
        {"op": "insert", "namespace": "shop.orders", "timestamp": 1001, "offset": 1, "data": {"_id": 1, "n": 1}},
        {"op": "delete", "namespace": "shop.orders", "timestamp": 0, "offset": 2, "data": {"_id": 0}},
    ]
    assert hook.keys == ["p/s/0", "p/s/1", "p/s/2"]
    assert {headers["content-type"] for _, _, headers, _ in hook.got} == {"application/json"}


def test_the_same_message_has_the_same_key_unless_it_is_replayed(hook: Hook) -> None:
    write(http(hook.url), numbered(1))
    write(http(hook.url), numbered(1), part(attempt="other"))
    write(http(hook.url), numbered(1), part(again=True, attempt="x7"))
    assert hook.keys == ["p/s/0", "p/s/0", "p/s/0/x7"]


def test_the_data_alone_to_an_address_of_the_namespace(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "secret")
    made = http(f"{hook.url}/{{namespace}}?v=1", method="PUT", envelope=False, headers={"Authorization": "Bearer ${HOOK_TOKEN}"})
    write(made, [Message("a/b c", {"n": 1}, offset=0)])
    ((method, path, headers, body),) = hook.got
    assert (method, path, body) == ("PUT", "/hook/a%2Fb%20c?v=1", b'{"n":1}')
    assert headers["authorization"] == "Bearer secret"


def test_the_data_alone_cannot_say_that_something_was_deleted(hook: Hook) -> None:
    with pytest.raises(Rejected) as refused:
        write(http(hook.url, envelope=False), [*numbered(2), Message("x", {"_id": 1}, Op.DELETE, offset=2)])
    assert (refused.value.offset, refused.value.before_taken) == (2, True)
    assert len(hook.got) == 2


def test_a_batch_is_lines_of_json(hook: Hook) -> None:
    write(http(hook.url, batched=True), numbered(3))
    ((_, _, headers, body),) = hook.got
    assert [json.loads(line)["offset"] for line in body.splitlines()] == [0, 1, 2]
    assert (headers["content-type"], headers["idempotency-key"]) == ("application/x-ndjson", "p/s/0-2")


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422])
def test_a_refused_message_is_named_and_those_before_it_are_taken(hook: Hook, status: int) -> None:
    hook.answer = lambda path, body: (status, {}, b"no\n such thing.") if json.loads(body)["offset"] == 3 else (200, {}, b"ok")
    with pytest.raises(Rejected, match=rf"\({status}\): no such thing\.") as refused:
        write(http(hook.url), numbered(5))
    assert (refused.value.offset, refused.value.before_taken) == (3, True)
    assert hook.keys == ["p/s/0", "p/s/1", "p/s/2", "p/s/3"]


def test_a_refused_batch_blames_nobody_yet(hook: Hook) -> None:
    hook.answer = lambda path, body: (422, {}, b"")
    with pytest.raises(Rejected) as refused:
        write(http(hook.url, batched=True), numbered(3))
    assert (refused.value.offset, refused.value.before_taken) == (-1, False)
    with pytest.raises(Rejected) as refused:
        write(http(hook.url, batched=True), numbered(1))
    assert refused.value.offset == 0


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_a_busy_server_is_asked_again_with_the_same_key(hook: Hook, status: int) -> None:
    left = [status, status]
    hook.answer = lambda path, body: (left.pop(), {"retry-after": "1"}, b"busy") if left else (200, {}, b"")
    waits: list[float] = []
    write(http(hook.url), numbered(1), waits=waits)
    assert hook.keys == ["p/s/0"] * 3
    assert waits == [1.0, 1.0]


def test_a_server_that_stays_busy_is_no_fault_of_a_message(hook: Hook) -> None:
    hook.answer = lambda path, body: (503, {"retry-after": "60"}, b"down")
    with pytest.raises(Unreachable, match=r"cannot take this now \(503\): down"):
        write(http(hook.url), numbered(1), part(timeout=5.0))
    assert len(hook.got) == 1


@pytest.mark.parametrize("status", [301, 307, 401, 403, 407])
def test_a_wrong_token_or_address_is_no_fault_of_a_message(hook: Hook, status: int) -> None:
    hook.answer = lambda path, body: (status, {"location": "/elsewhere"}, b"")
    with pytest.raises(Unreachable, match=str(status)):
        write(http(hook.url), numbered(1))
    assert len(hook.got) == 1  # neither followed nor tried again


def test_what_was_posted_before_a_server_went_away_is_known(hook: Hook) -> None:
    adaptor = http(hook.url)
    hook.answer = lambda path, body: (204 if json.loads(body)["offset"] < 3 else 401, {}, b"")
    with WebhookClient(adaptor) as poster:
        writer = HttpWriter(adaptor, part(), poster)
        with pytest.raises(Unreachable):
            writer.write(Batch(start=0, end=9, messages=numbered(9)))
        assert (writer.one_by_one, writer.sent_before) == (True, 3)
    assert not HttpWriter(http(hook.url, batched=True), part(), poster).one_by_one


def test_a_server_that_does_not_answer_is_left_in_time(hook: Hook) -> None:
    def held(path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        hook.holding.wait(60)
        return 200, {}, b""

    hook.answer = held
    with pytest.raises(Timeout, match=r"within 0\.05 s"):
        write(http(hook.url), numbered(1), part(timeout=0.05))


def test_slow_answers_to_many_messages_do_not_use_up_the_time_of_the_next(hook: Hook) -> None:
    now = [0.0]

    def slow(path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        now[0] += 20.0
        return 200, {}, b""

    hook.answer = slow
    with WebhookClient(http(hook.url)) as poster:
        writer = HttpWriter(http(hook.url), part(timeout=30.0), poster, clock=lambda: now[0])
        writer.write(Batch(start=0, end=5, messages=numbered(5)))
    assert hook.keys == [f"p/s/{n}" for n in range(5)]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the client."""
    now = [0.0]
    monkeypatch.setattr("headwater.adaptors.http.sink.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_an_answer_that_comes_in_drops_does_not_hold_us(now: list[float]) -> None:
    sent = 0
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            nonlocal sent
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 No\r\ncontent-length: 1000\r\n\r\n")
                while sent < 1000:
                    connection.sendall(b"x")
                    sent += 1
                    now[0] = 100.0 if sent > 5 else 0.0
                    time.sleep(0.01)

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        with pytest.raises(Rejected, match=r"\(400\): x"):
            write(http(f"http://127.0.0.1:{server.getsockname()[1]}/"), numbered(1), part(timeout=60.0))
        thread.join()
    assert sent < 1000


@pytest.mark.parametrize(("head", "taken"), [(b"", False), (b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", True)])
def test_an_answer_that_comes_byte_by_byte_does_not_hold_the_sink_longer_than_its_timeout(
    head: bytes, taken: bool, now: list[float]
) -> None:
    ended = threading.Event()

    def answer(server: socket.socket) -> None:
        with server.accept()[0] as link, suppress(OSError):  # the other side hangs up
            link.recv(65_536)
            link.sendall(head or b"HTTP/1.1 200 OK\r\n")
            while not ended.wait(0.01):
                link.sendall(b"x" if head else b"x: 1\r\n")
                now[0] += 0.5

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        address = http(f"http://127.0.0.1:{server.getsockname()[1]}/")
        try:
            if taken:  # its status says so, whatever comes behind it
                write(address, numbered(1), part(timeout=2.0))
            else:
                with pytest.raises(Timeout, match=r"within 2 s"):
                    write(address, numbered(1), part(timeout=2.0))
            thread.join(60)
            assert not thread.is_alive()  # the connection was ended
        finally:
            ended.set()


@pytest.mark.usefixtures("now")
def test_nobody_there(hook: Hook) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else can have the port meanwhile
        taken.bind(("127.0.0.1", 0))
        nobody = http(f"http://user:hidden@127.0.0.1:{taken.getsockname()[1]}/hook?key=hidden")
        with pytest.raises(Unreachable, match="cannot be reached: Connection refused") as problem:
            write(nobody, numbered(1), part(timeout=0.2))
        assert "hidden" not in str(problem.value)
        with pytest.raises(Unreachable):
            nobody.check("sink", Namespaces())


def test_the_check_changes_nothing(hook: Hook) -> None:
    assert http(hook.url).check("sink", Namespaces()) == [f"{hook.url} answers (HEAD: 204)"]
    assert [method for method, *_ in hook.got] == ["HEAD"]
    hook.answer = lambda path, body: (401, {}, b"")
    with pytest.raises(Denied):
        http(hook.url).check("sink", Namespaces())


def test_options_that_cannot_be() -> None:
    for wrong in ({"method": "GET"}, {"headers": {"Content-Type": "text/plain"}}, {"headers": {"x": 1}}, {"batch": True}):
        with pytest.raises(BadConfig):
            http("http://127.0.0.1/", **wrong)
    for wrong in ({"headers": ["x"]}, {"headers": {"a b": "c"}}, {"headers": {1: "c"}}, {"batched": "yes"}, {"envelope": 1}):
        with pytest.raises(BadConfig):
            http("http://127.0.0.1/", **wrong)  # type: ignore[arg-type]
    for url in (5, "http://{namespace}.example.com/", "127.0.0.1:80", "ftp://127.0.0.1/", "http://", "http://h:99999/"):
        with pytest.raises(BadConfig):
            http(url)  # type: ignore[arg-type]
    with pytest.raises(BadConfig, match="several namespaces"):
        http("http://127.0.0.1/{namespace}", batched=True)


def test_a_token_with_a_line_s_end_is_told_before_anything_is_sent(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "hidden\n")
    made = http(hook.url, headers={"authorization": "Bearer ${HOOK_TOKEN}"})
    with pytest.raises(BadConfig, match="The header authorization") as told:
        made.writer(part())
    assert "hidden" not in str(told.value)


def test_authorities_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_CA", "/absent/authorities.pem")
    with pytest.raises(BadConfig, match=r"/absent/authorities\.pem cannot be read"):
        http("https://127.0.0.1/", ca="${HOOK_CA}").writer(part())


def test_secrets_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    made = http(env("HOOK_URL"), headers={"authorization": env("HOOK_TOKEN")})
    assert str(made) == "http(${HOOK_URL})"
    with pytest.raises(BadConfig, match="HOOK_URL"):
        made.check("sink", Namespaces())
    monkeypatch.setenv("HOOK_URL", "secret-and-no-address")
    with pytest.raises(BadConfig) as problem:
        made.address("")
    assert "secret" not in str(problem.value)


def test_batches_are_not_shared_out_because_their_keys_are_those_of_their_bounds(hook: Hook) -> None:
    assert http(hook.url).shareable()
    assert not http(hook.url, batched=True).shareable()
