"""The short way answers as the long one does: the same requests, with and without it, over the wire."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headwater import parts
from headwater.client.local import LocalLog, local_log
from headwater.client.wal_performer import WalPerformer
from headwater.core.clock import SystemClock
from headwater.core.errors import DiskFull, OutcomeUnknown
from headwater.core.metrics import HttpMetrics, Metrics
from headwater.core.settings import ServerSettings, Settings
from headwater.log.record import Record
from headwater.server.app import App
from headwater.server.auth import Tokens
from headwater.server.connections import Connections, Limits
from headwater.server.hot import HotAnswer, HotCall, HotPath, Pending
from headwater.server.http_server import HttpServer
from headwater.testing.app import app_over
from headwater.testing.sockets import answers, listening, pieces_of
from headwater.wal.settings import RegionSettings

pytestmark = pytest.mark.anyio
WRITER, READER, SHOP = "w" * 20, "r" * 20, "s" * 20
HOSTS = frozenset({"127.0.0.1"})
GOOD = b'{"value": 1}'
LINES = b"Content-Type: application/x-ndjson\r\n"


class Counting:
    """A hot path that notes what it began."""

    def __init__(self, path: HotPath) -> None:
        self._path, self.begun = path, list[str]()
        self.find, self.admit, self.answer, self.largest = path.find, path.admit, path.answer, path.largest
        self.readmit = path.readmit

    def begin(self, *given: object, alone: bool) -> object:
        begun = self._path.begin(*given, alone=alone)  # type: ignore[arg-type]
        if begun is not None:
            self.begun.append(begun.operation.name)
        return begun


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), tmp_path / "data", SystemClock())
    await opened.create_topic("t")
    await opened.create_topic("gone")
    for topic in ("t", "gone"):
        await opened.append(topic, 0, [Record(None, b"first")])
    await opened.delete_topic("gone")
    yield opened
    await opened.aclose()


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    file = tmp_path / "tokens"
    file.write_text(f"writer {WRITER}\nreader {READER}\nwriter {SHOP} name=shop prefix=/log/t\n")
    file.chmod(0o600)
    return Tokens.load(file)


def request(path: bytes = b"/log/t/0/records", headers: bytes = b"", body: bytes = GOOD, method: bytes = b"POST") -> bytes:
    sent = headers if b"host:" in headers.lower() else b"Host: 127.0.0.1\r\n" + headers
    if b"Content-Type" not in sent:
        sent += b"Content-Type: application/json\r\n"
    return b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (method, path, sent, len(body), body)


def read(path: bytes, headers: bytes = b"", method: bytes = b"GET") -> bytes:
    return b"%b %b HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n" % (method, path, headers)


def bearer(token: str) -> bytes:
    return b"Authorization: Bearer %b\r\n" % token.encode()


async def asked(app: App, hot: HotPath | Counting | None, sent: bytes, *, times: int = 1, head: bool = False) -> bytes:
    """What comes back for the bytes, without the date, ids and offsets, which differ from one request to the next."""
    connections = Connections(Limits.of(ServerSettings(), descriptors=100), HttpMetrics())
    server = HttpServer(app, connections=connections, ids=lambda: "id", grace=1, hot=hot)  # type: ignore[arg-type]
    async with listening(server) as address:
        if head:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(sent)
            answer = await reader.readuntil(b"\r\n\r\n")
            writer.close()
        else:
            answer = b"".join(await answers(address, [sent] * times, times, one_by_one=True))
    return re.sub(rb'date: [^\r]*\r\n|(?<="offsets":)\[[0-9, ]*\]', b"", answer)


# Every request that a hot operation may be sent, in a form that goes the short way and in forms that do not: name → (bytes, tokens).
APPENDS = {
    "one": request(),
    "a list": request(body=b'[{"value": 1}, {"key": "a", "value": null}]'),
    "lines": request(headers=LINES, body=b'{"value": 1}\n{"value": 2}\n'),
    "nothing": request(body=b"[]"),
    "no body": request(body=b""),
    "bad json": request(body=b"{"),
    "bad line": request(headers=LINES, body=b'{"value": 1}\n{"valu": 2}\n'),
    "not utf-8": request(body=b'{"value": "\xff"}'),
    "neither": request(body=b"{}"),
    "unknown topic": request(b"/log/none/0/records"),
    "deleted topic": request(b"/log/gone/0/records"),
    "unknown partition": request(b"/log/t/7/records"),
    "no partition": request(b"/log/t/x/records"),
    "leading zero": request(b"/log/t/00/records"),
    "huge partition": request(b"/log/t/99999999999999999999999/records"),
    "encoded": request(b"/log/%74/0/records"),
    "slash in a name": request(b"/log/t%2Fx/0/records"),
    "query": request(b"/log/t/0/records?x=1"),
    "a form": request(headers=b"Content-Type: application/x-www-form-urlencoded\r\n"),
    "charset": request(headers=b"Content-Type: application/json; charset=utf-8\r\n"),
    "idempotency key": request(headers=b"Idempotency-Key: a\r\n"),
    "other host": request(headers=b"Host: evil.example\r\n"),
    "other origin": request(headers=b"Origin: http://evil.example\r\n"),
    "other site": request(headers=b"Sec-Fetch-Site: cross-site\r\n"),
    "accept events": request(headers=b"Accept: text/event-stream\r\n"),
    "positions": request(b"/log/pipeline-p-offsets/0/records"),
    "upgrade": request(headers=b"Connection: upgrade\r\nUpgrade: h2c\r\n"),
    "too large a record": request(body=b'{"value": "%b"}' % (b"x" * 9_000)),
    "too large a body": request(body=b'{"value": "%b"}' % (b"x" * 12_000)),
    "method": request(method=b"PUT"),
    "closing": request(headers=b"Connection: close\r\n"),
}
GUARDED = {
    "writer": request(headers=bearer(WRITER)),
    "reader": request(headers=bearer(READER)),
    "shop inside": request(headers=bearer(SHOP)),
    "shop outside": request(b"/log/u/0/records", headers=bearer(SHOP)),
    "shop by dots": request(b"/log/t/../u/0/records", headers=bearer(SHOP)),
    "shop by an encoded slash": request(b"/log/t%2F..%2Fu/0/records", headers=bearer(SHOP)),
    "unknown": request(headers=bearer("x" * 20)),
    "none": request(),
    "twice": request(headers=bearer(READER) + bearer(WRITER)),
}
READS = {
    "bounds": read(b"/log/t/0"),
    "bounds with a query": read(b"/log/t/0?x=1"),
    "bounds of an unknown partition": read(b"/log/t/9"),
    "bounds of a deleted topic": read(b"/log/gone/0"),
    "bounds with a body": request(b"/log/t/0", method=b"GET"),
    "HEAD": read(b"/log/t/0", method=b"HEAD"),
    "a few": read(b"/log/t/0/records?from=0&limit=2&decode=binary"),
    "all there are": read(b"/log/t/0/records?from=1&limit=100&decode=binary"),
    "up to": read(b"/log/t/0/records?from=0&to=2&limit=100&decode=binary"),
    "up to, in pages": read(b"/log/t/0/records?from=0&to=3&limit=2&decode=binary"),
    "nothing between": read(b"/log/t/0/records?from=1&to=1&limit=2&decode=binary"),
    "at the end": read(b"/log/t/0/records?from=5&limit=2&decode=binary"),
    "beyond the end": read(b"/log/t/0/records?from=6&limit=2&decode=binary"),
    "the wrong way round": read(b"/log/t/0/records?from=3&to=1&limit=2&decode=binary"),
    "none": read(b"/log/t/0/records?from=0&limit=0&decode=binary"),
    "many": read(b"/log/t/0/records?from=0&limit=101&decode=binary"),
    "as text": read(b"/log/t/0/records?from=0&limit=2"),
    "unknown parameter": read(b"/log/t/0/records?from=0&limit=2&decode=binary&x=1"),
    "twice the same": read(b"/log/t/0/records?from=0&limit=2&limit=3&decode=binary"),
    "huge": read(b"/log/t/0/records?from=9999999999999999999&limit=2&decode=binary"),
    "deleted topic, read": read(b"/log/gone/0/records?from=0&limit=2&decode=binary"),
    "encoded, read": read(b"/log/%74/0/records?from=0&limit=2&decode=binary"),
    "guarded read": read(b"/log/t/0/records?from=0&limit=2&decode=binary", headers=bearer(READER)),
    "guarded bounds": read(b"/log/t/0", headers=bearer(READER)),
    "unknown token, read": read(b"/log/t/0/records?from=0&limit=2&decode=binary", headers=bearer("x" * 20)),
    "shop outside, read": read(b"/log/u/0", headers=bearer(SHOP)),
}
SHORT_READS = {
    *("bounds", "a few", "all there are", "up to", "up to, in pages", "nothing between", "at the end", "beyond the end", "encoded, read"),
    *("guarded read", "guarded bounds"),
}
SHORT = {"one", "a list", "lines", "nothing", "too large a record", "encoded", "writer", "shop inside"}


_WAL = b"/wal/wal/7/tables/1/entries"
RAW = b"Content-Type: application/octet-stream\r\n"
PAYLOADS = b'{"payloads": ["a", {"$binary": "AP8="}, {"n": 1}]}'
WRITES = {
    "json": request(_WAL, body=PAYLOADS),
    "lines": request(_WAL, headers=LINES, body=b'"a"\n{"$binary": "AP8="}\n'),
    "raw": request(_WAL, headers=RAW, body=b"\x00\xff"),
    "raw and empty": request(_WAL, headers=RAW, body=b""),
    "the largest table": request(b"/wal/wal/7/tables/18446744073709551615/entries", body=PAYLOADS),
    "no payloads": request(_WAL, body=b'{"payloads": []}'),
    "no lines": request(_WAL, headers=LINES, body=b"\n"),
    "bad json": request(_WAL, body=b"{"),
    "null": request(_WAL, body=b'{"payloads": [null]}'),
    "a list": request(_WAL, body=b'["a"]'),
    "a form": request(_WAL, headers=b"Content-Type: application/x-www-form-urlencoded\r\n"),
    "charset": request(_WAL, headers=b"Content-Type: application/json; charset=utf-8\r\n", body=PAYLOADS),
    "idempotency key": request(_WAL, headers=b"Idempotency-Key: a\r\n", body=PAYLOADS),
    "a timeout": request(_WAL + b"?timeout=5s", body=PAYLOADS),
    "no timeout": request(_WAL + b"?timeout=5", body=PAYLOADS),
    "query": request(_WAL + b"?x=1", body=PAYLOADS),
    "too large a table": request(b"/wal/wal/7/tables/18446744073709551616/entries", body=PAYLOADS),
    "leading zero": request(b"/wal/wal/07/tables/1/entries", body=PAYLOADS),
    "no table": request(b"/wal/wal/7/tables/x/entries", body=PAYLOADS),
    "unknown region": request(b"/wal/wal/8/tables/1/entries", body=PAYLOADS),
    "unknown namespace": request(b"/wal/other/7/tables/1/entries", body=PAYLOADS),
    "no namespace": request(b"/wal/a_b/7/tables/1/entries", body=PAYLOADS),
    "encoded": request(b"/wal/%77al/7/tables/1/entries", body=PAYLOADS),
    "too large a record": request(_WAL, headers=RAW, body=b"x" * 5_000),
    "too large a body": request(_WAL, headers=RAW, body=b"x" * 12_000),
}
SHORT_WRITES = {"json", "lines", "raw", "raw and empty", "the largest table", "encoded", "too large a record"}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_to_a_region_is_answered_as_on_the_long_way(name: str, log: LocalLog) -> None:
    performer = WalPerformer(log=log)
    app = app_over(log, hosts=HOSTS, performers={"wal": performer})
    await (await performer.manager("wal")).open(7, create=RegionSettings(max_record="4KiB"))
    sent, hot = WRITES[name], Counting(app.hot)
    short, long = [re.sub(rb'"sequence":[0-9]+', b"", await asked(app, way, sent)) for way in (hot, None)]
    assert short == long
    assert bool(hot.begun) == (name in SHORT_WRITES)
    await performer.aclose()


@pytest.mark.parametrize("name", [*APPENDS, *GUARDED])
async def test_an_append_is_answered_as_on_the_long_way(name: str, log: LocalLog, tokens: Tokens) -> None:
    guarded = name in GUARDED
    app = app_over(log, tokens=tokens if guarded else None, hosts=None if guarded else HOSTS)
    sent, hot = (GUARDED if guarded else APPENDS)[name], Counting(app.hot)
    assert await asked(app, hot, sent) == await asked(app, None, sent)
    assert bool(hot.begun) == (name in SHORT)


@pytest.mark.parametrize("name", READS)
async def test_a_small_read_is_answered_as_on_the_long_way(name: str, log: LocalLog, tokens: Tokens) -> None:
    """Three times on one connection: parsed, learnt, and recognized by its bytes."""
    for text in (b"a", None, b"\xff", b"b"):
        await log.append("t", 0, [Record(b"k", text, headers=(("h", b"v"),))])
    await log.bounds("t", 0)  # the partition is open now
    guarded = b"Authorization" in READS[name]
    app = app_over(log, tokens=tokens if guarded else None, hosts=None if guarded else HOSTS)
    hot, sent = Counting(app.hot), READS[name]
    if name == "HEAD":
        assert await asked(app, hot, sent, head=True) == await asked(app, None, sent, head=True)
    else:
        short, long = await asked(app, hot, sent, times=3), await asked(app, None, sent, times=3)
        assert sorted(short.split(b"\r\n")) == sorted(long.split(b"\r\n"))
    assert len(hot.begun) == (3 if name in SHORT_READS else 0)


@pytest.mark.parametrize("error", [DiskFull("Full.", hint="h"), OutcomeUnknown("Who knows.", hint="h"), ValueError("fault")])
async def test_a_failing_append_is_answered_as_on_the_long_way(error: Exception, log: LocalLog, monkeypatch: pytest.MonkeyPatch) -> None:
    appender = log.appender("t", 0)
    assert appender is not None

    def failing(records: object) -> asyncio.Future[object]:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        return future

    monkeypatch.setattr(appender, "append", failing)
    reported: list[BaseException] = []
    app = app_over(log, report=lambda error_id, error: reported.append(error))
    hot = Counting(app.hot)
    assert await asked(app, hot, request()) == await asked(app, None, request())
    assert hot.begun == ["append"]
    assert len(reported) == 2
    monkeypatch.undo()


async def test_streams_of_the_same_address_are_the_applications(log: LocalLog) -> None:
    hot = app_over(log).hot
    match = hot.find("GET", b"/log/t/0/records")
    assert match is not None
    assert hot.admit(match, [(b"host", b"h")], None) is not None
    for media in (b"text/event-stream", b"application/x-ndjson", b"application/json, text/event-stream"):
        assert hot.admit(match, [(b"host", b"h"), (b"accept", media)], None) is None


async def test_every_hot_operation_is_compared_here(log: LocalLog) -> None:
    """A new hot operation must bring its cases; those of queues, journals and documents are in files of their own."""
    compared = {"log_append", "log_bounds", "log_read", "wal_write", "queue_put", "queue_claim", "journal_append"}
    compared |= {f"documents_content_{verb}" for verb in ("get", "put", "patch", "post")}
    assert {route.operation.id for route in app_over(log).hot.routes} == compared


async def test_pipelined_appends_share_a_sync_and_are_answered_in_order(log: LocalLog) -> None:
    metrics = Metrics()
    app = app_over(log, metrics=metrics)
    server = HttpServer(
        app, connections=Connections(Limits.of(ServerSettings(), descriptors=100), HttpMetrics()), ids=lambda: "id", grace=1, hot=app.hot
    )
    mixed = [request(), request(b"/healthz", body=b"", method=b"GET"), *[request()] * 20, request(body=b"{"), request()]
    async with listening(server) as address:
        got = await answers(address, b"".join(mixed), len(mixed))
    statuses = [int(answer.split(b" ", 2)[1]) for answer in got]
    assert statuses == [201, 200, *[201] * 20, 400, 201]
    offsets = [int(found[1]) for answer in got if (found := re.search(rb'"offsets":\[(\d+)\]', answer))]
    assert offsets == list(range(offsets[0], offsets[0] + 22))


async def test_who_leaves_has_its_appends_done_and_counted(log: LocalLog) -> None:
    metrics = HttpMetrics()
    future: asyncio.Future[range] = asyncio.get_running_loop().create_future()
    app = app_over(log)
    app.hot._metrics = metrics
    operation = next(one for one in parts.operations() if one.id == "log_append")
    pending = Pending(operation, HotAnswer(future, lambda offsets: b"{}"), 0.0)
    future.set_result(range(1))
    assert app.hot.answer(pending, head=b"").startswith(b"HTTP/1.1 201 Created\r\n")
    counted = [sample for family in metrics.families() for sample in family.samples if sample.name.endswith("_count")]
    assert [(sample.labels["status"], sample.value) for sample in counted] == [("201", 1.0)]


async def test_a_request_in_pieces_is_one_request(log: LocalLog) -> None:
    app = app_over(log)
    server = HttpServer(
        app, connections=Connections(Limits.of(ServerSettings(), descriptors=100), HttpMetrics()), ids=lambda: "id", grace=1, hot=app.hot
    )
    async with listening(server) as address:
        got = await answers(address, pieces_of(request() * 2), 2)
    assert [answer[:12] for answer in got] == [b"HTTP/1.1 201"] * 2


async def test_a_handler_that_declines_has_done_nothing(log: LocalLog) -> None:
    hot = next(route for route in app_over(log).hot.routes if route.hot is not None).hot
    assert hot is not None
    assert hot(HotCall({"topic": "t", "partition": "0"}, b"", b"application/json", b"{")) is None


async def test_who_has_no_more_to_ask_still_gets_its_answers(log: LocalLog) -> None:
    app = app_over(log)
    server = HttpServer(
        app, connections=Connections(Limits.of(ServerSettings(), descriptors=100), HttpMetrics()), ids=lambda: "id", grace=1, hot=app.hot
    )
    async with listening(server) as address:
        got = await answers(address, request() * 10, 11, half_close=True)
    assert [answer[:12] for answer in got] == [b"HTTP/1.1 201"] * 10
    assert b"connection: close" in got[-1]
