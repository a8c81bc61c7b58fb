"""Which bytes repeat a known head, and which are left to the parser."""

from __future__ import annotations

import pytest

from headwater.log.operations import APPEND, BOUNDS
from headwater.server.caller import OWNER
from headwater.server.hot import Admission, HotMatch, KnownClient
from headwater.server.hot_heads import HotHeads
from headwater.server.route import Route

CLIENT = KnownClient(b"h", b"", 0, OWNER)
POST = b"POST /log/t/0/records HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
GET = b"GET /log/t/0?a=1 HTTP/1.1\r\nHost: h\r\n\r\n"


def admission(name: str = "post") -> Admission:
    operation = APPEND if name == "post" else BOUNDS
    return Admission(HotMatch(Route(operation, None), {}, b""), b"", CLIENT)  # type: ignore[arg-type]


@pytest.fixture
def heads() -> HotHeads:
    known = HotHeads()
    known.learn(POST, b"/log/t/0/records", b"POST", admission(), room=100)
    known.learn(GET, b"/log/t/0?a=1", b"GET", admission("get"), room=10)
    return known


def found(heads: HotHeads, data: bytes, at: int = 0) -> tuple[str, bytes, bytes, int] | None:
    request = heads.find(data, at, 1000)
    return None if request is None else (request.admission.match.route.operation.name, request.query, request.body, request.end)


def sized(body: bytes, length: bytes | None = None) -> bytes:
    return POST[: POST.index(b"2\r\n\r\n")] + (b"%d" % len(body) if length is None else length) + b"\r\n\r\n" + body


def test_a_repetition_may_have_another_body_and_another_query(heads: HotHeads) -> None:
    assert found(heads, POST) == ("append", b"", b"{}", len(POST))
    assert found(heads, sized(b'{"value":1}')) == ("append", b"", b'{"value":1}', len(sized(b'{"value":1}')))
    assert found(heads, sized(b"")) == ("append", b"", b"", len(sized(b"")))
    assert found(heads, GET) == ("bounds", b"a=1", b"", len(GET))
    assert found(heads, GET.replace(b"?a=1", b"")) == ("bounds", b"", b"", len(GET) - 4)
    assert found(heads, GET.replace(b"a=1", b"b=%2F&c=")) == ("bounds", b"b=%2F&c=", b"", len(GET) + 5)


def test_another_path_is_admitted_anew() -> None:
    asked: list[tuple[str, bytes]] = []

    def readmit(known: Admission, method: str, raw_path: bytes) -> Admission | None:
        asked.append((method, raw_path))
        return None if raw_path == b"/refused" else known._replace(match=known.match._replace(raw_path=raw_path))

    heads = HotHeads(readmit)
    heads.learn(GET, b"/log/t/0?a=1", b"GET", admission("get"), room=10)
    other = GET.replace(b"/log/t/0?a=1", b"/log/other/1")
    request = heads.find(other, 0, 1000)
    assert request is not None
    assert (request.admission.match.raw_path, request.query, request.end) == (b"/log/other/1", b"", len(other))
    assert asked == [("GET", b"/log/other/1")]
    for path in (b"/refused", b"/log/a%2Fb/0", b"//log", b"/log/t/", b"*", b"/log/" + b"x" * 40):
        assert heads.find(GET.replace(b"/log/t/0?a=1", path), 0, 1000) is None, path
    assert heads.find(other.replace(b"Host: h", b"Host: i"), 0, 1000) is None
    assert heads.find(other.replace(b"GET", b"POST"), 0, 1000) is None
    heads.clear()
    assert heads.find(other, 0, 1000) is None


def test_requests_may_follow_each_other(heads: HotHeads) -> None:
    data = POST + GET + POST
    assert found(heads, data, len(POST)) == ("bounds", b"a=1", b"", len(POST + GET))
    assert found(heads, data, len(POST + GET)) == ("append", b"", b"{}", len(data))


@pytest.mark.parametrize(
    "data",
    {
        "another path": POST.replace(b"/t/", b"/u/"),
        "another method": POST.replace(b"POST", b"PUT"),
        "another version": POST.replace(b"HTTP/1.1", b"HTTP/1.0"),
        "another header": POST.replace(b"Host: h", b"Host: x"),
        "one header more": POST.replace(b"Content-Length", b"X: y\r\nContent-Length"),
        "one header less": POST.replace(b"Content-Type: application/json\r\n", b""),
        "a header behind the length": POST.replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n"),
        "chunks": POST.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked"),
        "a signed length": sized(b"{}", b"+2"),
        "a negative length": sized(b"{}", b"-2"),
        "no length": sized(b"{}", b""),
        "a length with a space": sized(b"{}", b"2 "),
        "two lengths": sized(b"{}", b"2, 2"),
        "a length in other digits": sized(b"{}", "٢".encode()),
        "a long length": sized(b"{}", b"0000002"),
        "a large body": sized(bytes(1001)),
        "half a body": sized(b"{}")[:-1],
        "half a head": POST[:40],
        "nothing": b"",
        "an empty line before": b"\r\n" + POST,
        "a space before": b" " + POST,
        "a fragment": GET.replace(b"a=1", b"a=1#b"),
        "a strange query": GET.replace(b"a=1", b'a="1"'),
        "a high byte": GET.replace(b"a=1", b"a=\xff"),
        "a query that makes the head too large": GET.replace(b"a=1", b"a=" + b"1" * 20),
        "a line that does not end": b"GET /log/t/0?a=" + b"1" * 5000,
    }.items(),
    ids=lambda case: case[0],
)
def test_anything_else_is_the_parsers(heads: HotHeads, data: tuple[str, bytes]) -> None:
    assert found(heads, data[1]) is None


@pytest.mark.parametrize(
    "data",
    [
        POST.replace(b"Content-Length: 2\r\n", b"").replace(b"Host: h\r\n", b"Content-Length: 2\r\nHost: h\r\n"),
        b"\r\n" + POST,
        POST[:50],
        POST.replace(b" /log", b"  /log"),
        POST.replace(b"/log", b"http://h/log"),
    ],
    ids=["length first", "empty line", "half", "two spaces", "absolute"],
)
def test_heads_in_another_form_are_not_learnt(data: bytes) -> None:
    heads = HotHeads()
    heads.learn(data, b"/log/t/0/records", b"POST", admission(), room=100)
    assert found(heads, data) is None
    assert found(heads, POST) is None


def test_a_connection_does_not_remember_more_than_a_few(heads: HotHeads) -> None:
    for number in range(100):
        url = b"/log/t/%d" % number
        heads.learn(GET.replace(b"/log/t/0?a=1", url), url, b"GET", admission("get"), room=10)
    assert len(heads._heads) <= 32
    assert found(heads, GET.replace(b"/log/t/0?a=1", b"/log/t/99")) is not None
    heads.clear()
    assert found(heads, GET.replace(b"/log/t/0?a=1", b"/log/t/99")) is None
