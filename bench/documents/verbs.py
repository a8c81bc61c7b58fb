"""GET and durable PUT over HTTP, beside routes that do the least: Starlette, and SQLite that is not synced."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench import mark
from bench.case import Case, Side
from bench.documents.bare_routes import BareServer
from bench.documents.http_clients import HttpClients, answered, connected, request, threads_time
from bench.floor import BareWrites
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.server.spawned import SpawnedServer

CONNECTIONS = 64
DOCUMENTS = 1000
BODY = b'{"name":"A hat of felt","price":12.50,"colours":["green","grey"],"stock":{"here":3,"there":40},"about":"' + b"x" * 80 + b'"}'
CONTENT = "/hyper-storage/content"
_RECORD = 700  # bytes of the record of such a PUT


def verbs(place: Place, sizes: Sizes) -> Iterator[Case]:
    """64 connections in elapsed time and in the server's processor time; then one connection beside the disk."""
    with place.sub("verbs") as folder, SpawnedServer(folder / "data") as server, BareServer.started(folder) as bare:
        ours, theirs = partial(threads_time, server.pid), partial(threads_time, bare.pid)
        puts, gets = documents(f"{CONTENT}/bench"), documents("/bench")
        for url, (writes, reads) in ((server.url, puts), (bare.url, gets)):
            _check(url, writes[0], reads[0])
        many, bare_many = HttpClients(server.url, CONNECTIONS, ours), HttpClients(bare.url, CONNECTIONS, theirs)
        single = HttpClients(server.url, 1, ours)
        with BareWrites(folder / "synced", _RECORD) as disk:
            many.round(puts[0], DOCUMENTS)
            bare_many.round(gets[0], DOCUMENTS)
            count = max(CONNECTIONS, sizes.callers)
            for verb, (at, floor, least, rate, text) in {
                "GET": (1, "Starlette and SQLite", 0.85, 15_000, "≥ 15 k/s"),
                "PUT": (0, "Starlette and SQLite, neither logged nor synced", 0.7, 6_000, "≥ 6 k/s"),
            }.items():
                name = f"documents {verb}, {CONNECTIONS} connections"
                yield Case(
                    name,
                    "request",
                    Side("headwater", partial(many.round, puts[at], count)),
                    Side(floor, partial(bare_many.round, gets[at], count)),
                    mark.both(mark.ratio(least), mark.rate(rate, text)),
                )
                yield Case(
                    f"{name}, the server's processor time",
                    "request",
                    Side("headwater", partial(many.by_processor, puts[at], count)),
                    Side(floor, partial(bare_many.by_processor, gets[at], count)),
                    mark.ratio(least),
                    shown="time",
                )
            few = max(1, count // 20)
            yield Case(
                "documents PUT, 1 connection",
                "request",
                Side("headwater", partial(single.round, puts[0], few)),
                Side("os.write and fdatasync", partial(disk.round, few)),
                mark.ratio(0.6),
            )
            yield Case(
                "documents GET, 1 connection",
                "request",
                Side("headwater", partial(single.round, puts[1], few)),
                Side("PUT", partial(single.round, puts[0], few)),
            )


def documents(prefix: str) -> tuple[list[bytes], list[bytes]]:
    """The PUT and the GET of every document."""
    paths = [f"{prefix}/{number:05}" for number in range(DOCUMENTS)]
    return [request("PUT", path, BODY) for path in paths], [request("GET", path) for path in paths]


def _check(url: str, put: bytes, get: bytes) -> None:
    """What was put is what is got, on both sides."""
    connection = connected(url)
    try:
        answered(connection, put)
        answer = answered(connection, get)
        if answer.body != BODY:
            raise Differs(f"{url} has {answer.body[:200]!r}, not what was put.", hint="Look at its route.")
    finally:
        connection.close()
