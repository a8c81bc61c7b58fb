"""Documents beside Kinto, which keeps JSON records over HTTP, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from bench import mark
from bench.case import Case, Side, Skipped
from bench.documents.http_clients import HttpClients, answered, connected, request, threads_time
from bench.documents.verbs import BODY, CONNECTIONS, CONTENT, DOCUMENTS, documents
from bench.machine import processor_time
from bench.peers import kinto
from bench.place import Place
from bench.queue.skip_locked import postgres
from bench.sizes import Sizes
from headwater.core.errors import Differs, Unavailable
from headwater.server.spawned import SpawnedServer

_BUCKET = "/v1/buckets/bench"
_COLLECTIONS = 16  # of the peer, written to in turns: it refuses two writes to one of them at the same moment
_WRITTEN = 192  # records of the peer
_SLOW = 20  # times fewer requests of the peer in a round


def beside(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """64 connections on both sides. Where PostgreSQL cannot be had, Kinto keeps its records in memory, as the label says."""
    with place.sub("beside") as folder, ExitStack() as stack:
        try:
            uri, pid = _database(stack)
            peer = stack.enter_context(kinto.started(folder, uri))
            _make(peer.url)
        except Unavailable as problem:
            yield Skipped("documents beside Kinto", str(problem))
            return
        server = stack.enter_context(SpawnedServer(folder / "data"))
        ours = HttpClients(server.url, CONNECTIONS, partial(threads_time, server.pid))
        theirs = HttpClients(peer.url, CONNECTIONS, lambda: threads_time(peer.pid) + (processor_time(pid) if pid else 0.0))
        puts, gets = documents(f"{CONTENT}/bench")
        records = [f"{_collection(number)}/records/{number:05}" for number in range(_WRITTEN)]
        written = [request("PUT", path, b'{"data":%b}' % BODY, headers=kinto.HEADERS) for path in records]
        read = [request("GET", path, headers=kinto.HEADERS) for path in records]
        ours.round(puts, DOCUMENTS)
        theirs.round(written, len(written))
        label = f"Kinto {peer.version} {'on PostgreSQL' if uri else 'in memory, as PostgreSQL is missing'}"
        count = max(CONNECTIONS, sizes.callers // 2)
        for verb, mine, other in (("PUT", puts, written), ("GET", gets, read)):
            yield Case(
                f"documents {verb}, {CONNECTIONS} connections, beside Kinto",
                "request",
                Side("headwater", partial(ours.round, mine, count)),
                Side(label, partial(theirs.round, other, max(1, count // _SLOW))),
                mark.ratio(20),
                rounds=sizes.few,
            )


def _database(stack: ExitStack) -> tuple[str | None, int]:
    """A database and the server's process; neither where there is no PostgreSQL."""
    try:
        server = stack.enter_context(postgres())
    except Unavailable:
        return None, 0
    return server.uri, server.pid


def _collection(number: int) -> str:
    return f"{_BUCKET}/collections/bench-{number % _COLLECTIONS}"


def _make(url: str) -> None:
    """A bucket with its collections. Errors: `Differs`, `Unavailable`."""
    connection = connected(url)
    try:
        for path in (_BUCKET, *map(_collection, range(_COLLECTIONS))):
            line = answered(connection, request("PUT", path, b"{}", headers=kinto.HEADERS)).line
            if not line.startswith(b"HTTP/1.1 2"):
                raise Differs(f"Kinto does not make {path}: {line!r}.", hint="See bench/peers/kinto_serving.py.")
    finally:
        connection.close()
