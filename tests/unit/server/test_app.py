"""The application as a whole, without a socket: whatever it is asked, it answers, and never with a fault of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Message
from tests.examples import examples

from headwater.client.local import LocalLog, local_log
from headwater.core.clock import SystemClock
from headwater.core.errors import Damaged
from headwater.core.metrics import Metrics
from headwater.core.settings import Settings
from headwater.log.record import Record
from headwater.server.app import App
from headwater.server.auth import allowed_hosts
from headwater.server.own import Health, Nothing
from headwater.server.route import Route
from headwater.testing.app import app_over
from headwater.wire.operation import Operation, Role

HOST = (b"host", b"127.0.0.1")


class Harness:
    """An application over a real log, asked from plain code."""

    def __init__(self, data: Path) -> None:
        self.runner = asyncio.Runner()
        self.reported: list[BaseException] = []
        self.metrics = Metrics()
        self.log: LocalLog = local_log(Settings(), data, SystemClock())
        self.app = self.runner.run(self.make([]))

    async def make(self, more: list[Route]) -> App:
        return app_over(
            self.log,
            hosts=allowed_hosts("127.0.0.1"),
            metrics=self.metrics,
            report=lambda error_id, error: self.reported.append(error),
            more=more,
        )

    def ask(
        self,
        method: str,
        path: str,
        query: bytes = b"",
        body: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
        app: App | None = None,
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        sent: list[Message] = []
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Message:
            return next(messages, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query,
            "headers": [HOST, *(headers or [])],
            "http_version": "1.1",
            "root_path": "",
        }
        self.runner.run(asyncio.wait_for((app or self.app)(scope, receive, send), 60))
        content = b"".join(message.get("body", b"") for message in sent)
        return sent[0]["status"], dict(sent[0]["headers"]), content

    def close(self) -> None:
        self.runner.run(self.log.aclose())
        self.runner.close()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    made = Harness(tmp_path_factory.mktemp("app"))
    made.runner.run(made.log.create_topic("t"))
    made.runner.run(made.log.append("t", 0, [Record(b"k", b"\xff\x00"), Record(None, b'{"a": 1}', (("h", None),))]))
    yield made
    made.close()


segments = st.sampled_from(["log", "t", "0", "records", "compact", "offset", "healthz", "", "..", "none", "9" * 30, "é", "%", "\x00"])
names = st.sampled_from(["from", "to", "limit", "decode", "after", "at", "before", "cursor", "x", ""])
words = st.sampled_from(["0", "1", "2", "-1", "9" * 18, "9" * 20, "text", "json", "hex", "", "2026-01-01T00:00:00Z", "%FF", "+", "é", "t"])
queries = st.lists(st.tuples(names, words), max_size=4).map(lambda pairs: "&".join(f"{a}={b}" for a, b in pairs).encode("utf-8"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just({"$binary": "AA=="}) | st.just({"$binary": "!"}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
fields = st.dictionaries(
    st.sampled_from(["key", "value", "headers", "timestamp", "mode", "op", "partitions", "settings", "no"]), json_values, max_size=4
)
bodies = st.binary(max_size=30) | fields.map(msgspec.json.encode) | st.lists(fields, max_size=3).map(msgspec.json.encode)
types = st.sampled_from(
    [[], [(b"content-type", b"application/json")], [(b"content-type", b"application/x-ndjson")], [(b"content-type", b"\xff")]]
)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS", "PATCH", "BREW"]),
    path=st.lists(segments, max_size=5).map(lambda parts: "/" + "/".join(parts)),
    query=queries,
    body=bodies,
    headers=types,
)
def test_nothing_that_is_asked_is_a_fault(
    harness: Harness, method: str, path: str, query: bytes, body: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    status, answered, content = harness.ask(method, path, query, body, headers)
    assert harness.reported == []
    assert status < 500
    if status >= 400:
        assert answered[b"content-type"] == b"application/problem+json"
        problem: dict[str, Any] = msgspec.json.decode(content)
        assert problem["status"] == status
        assert problem["hint"]
    elif answered.get(b"content-type") == b"application/json":
        msgspec.json.decode(content)


X = Operation(part="x", name="x", method="GET", path="/x", request=Nothing, answer=Health, role=Role.READER, says="")


def asked(harness: Harness, handler: Any) -> tuple[int, Any]:
    app = harness.runner.run(harness.make([Route(X, handler)]))
    status, _, content = harness.ask("GET", "/x", app=app)
    return status, msgspec.json.decode(content)


def test_a_fault_of_ours_is_reported_under_the_id_that_the_client_gets(harness: Harness) -> None:
    async def broken(call: object) -> None:
        raise ZeroDivisionError("secret detail")

    status, problem = asked(harness, broken)
    assert (status, problem["code"], problem["errorId"]) == (500, "headwater-error", "id")
    assert "secret" not in str(problem)
    assert isinstance(harness.reported.pop(), ZeroDivisionError)


def test_damage_is_reported_and_told(harness: Harness) -> None:
    async def damaged(call: object) -> None:
        raise Damaged("Segment 5 is damaged at byte 7.", hint="Run `headwater log check`.")

    status, problem = asked(harness, damaged)
    assert (status, problem["code"]) == (500, "damaged")
    assert isinstance(harness.reported.pop(), Damaged)


def test_it_admits_before_the_body_what_it_would_not_refuse_then(harness: Harness) -> None:
    async def never() -> Message:
        raise AssertionError("its body is read")

    def admits(method: str, path: str, query: bytes = b"", *headers: tuple[bytes, bytes]) -> bool:
        scope = {"method": method, "path": path, "raw_path": quote(path).encode(), "query_string": query, "headers": headers or (HOST,)}
        return harness.app.admits(scope, never)

    assert admits("GET", "/log/t/0/records", b"from=0")
    assert admits("POST", "/log/t/0/records")
    assert not admits("GET", "/log/t/0/records", b"form=0")
    assert not admits("BREW", "/log/t/0/records")
    assert not admits("GET", "/none")
    assert not admits("GET", "/log", b"", (b"host", b"evil.example"))
