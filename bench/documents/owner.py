"""What is left to the owner of documents when another worker of its server has got the PUT."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from bench import mark
from bench.case import Case, Side
from bench.documents.http_clients import HttpClients, answered, connected, request, threads_time
from bench.documents.verbs import CONNECTIONS, CONTENT, DOCUMENTS, documents
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.server.spawned import SpawnedServer

_FRONT = 1  # the worker that owns nothing: partition 0 is that of worker 0


def owner(place: Place, sizes: Sizes) -> Iterator[Case]:
    """The processor time of the owner, whose other worker gets all requests, beside that of a server alone."""
    with place.sub("owner") as folder:
        options = ("--port", "0", "--config", str(folder / "headwater.toml"))
        (folder / "headwater.toml").write_text("[documents]\npartitions = 1\n")
        with (
            SpawnedServer(folder / "two", options=(*options, "--workers", "2")) as two,
            SpawnedServer(folder / "alone", options=options) as alone,
        ):
            puts, _ = documents(f"{CONTENT}/bench")
            front = str(folder / "two" / "workers" / f"{_FRONT}.sock")
            for url in (front, alone.url):
                HttpClients(url, 1, float).round(puts[:1], 1)
            forwarded = HttpClients(front, CONNECTIONS, partial(threads_time, _owner(two.url)))
            whole = HttpClients(alone.url, CONNECTIONS, partial(threads_time, alone.pid))
            count = max(CONNECTIONS, sizes.callers)
            for clients in (forwarded, whole):
                clients.round(puts, DOCUMENTS)
            yield Case(
                f"documents PUT, {CONNECTIONS} connections, the owner's processor time for what another worker got",
                "request",
                Side("owner", partial(forwarded.by_processor, puts, count)),
                Side("a server alone", partial(whole.by_processor, puts, count)),
                mark.slowdown(0.4),
                shown="time",
            )


def _owner(url: str) -> int:
    """The process that owns partition 0. Errors: `Differs`."""
    connection = connected(url)
    try:
        status = msgspec.json.decode(answered(connection, request("GET", "/hyper-storage/status")).body)
    finally:
        connection.close()
    words = str(status["partitions"][0]["owner"]).split()
    if words[:1] != ["process"]:
        raise Differs(f"Nobody owns partition 0: {status}.", hint="See what the server said.")
    return int(words[1])
