"""Servers of documents over one directory, each of which owns one of the two partitions."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from headwater import parts
from headwater.client.documents import Documents
from headwater.client.documents_performer import DocumentsPerformer
from headwater.client.forwarding import ForwardingBackend
from headwater.client.local import LocalLog
from headwater.client.local_backend import LocalBackend
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.core.metrics import HttpMetrics
from headwater.core.settings import ServerSettings, Settings
from headwater.documents.path import partition_of
from headwater.log.embedded.log import EmbeddedLog
from headwater.server.connections import Connections, Limits
from headwater.server.http_server import HttpServer
from headwater.server.owner_hop import OwnerHop
from headwater.server.route import Route
from headwater.testing.app import app_over

ROUTES = [Route(operation, None) for operation in parts.operations()]  # type: ignore[arg-type]


def named(partition: int, count: int) -> list[str]:
    return [name for name in map("d{}".format, range(100)) if partition_of(name, 2) == partition][:count]


@asynccontextmanager
async def opened(folder: Path, address: str = "") -> AsyncIterator[tuple[LocalLog, DocumentsPerformer]]:
    log = LocalLog(lambda: EmbeddedLog(folder))
    performer = DocumentsPerformer(log=log, settings=Settings(data=folder), address=address)
    try:
        yield log, performer
    finally:
        await performer.aclose()
        await log.aclose()


@asynccontextmanager
async def server(folder: Path, partition: int) -> AsyncIterator[str]:
    """The address of a server that owns a partition."""
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"
    async with opened(folder, address) as (log, performer):
        await (await performer.opened()).activate(partition)
        app = app_over(log, performers={"documents": performer})
        hop = OwnerHop(app, app, ROUTES, parts=["documents"], address=address, max_body=10_000)
        connections = Connections(Limits.of(ServerSettings(), descriptors=100), HttpMetrics())
        http = HttpServer(hop, connections=connections, ids=lambda: "id", grace=1)
        serving = asyncio.create_task(http.serve([sock]))
        await http.listening.wait()
        try:
            yield address
        finally:
            http.stop()
            await serving
            hop.close()


@asynccontextmanager
async def door(folder: Path, near: str = "") -> AsyncIterator[Documents]:
    """The documents of a process that owns nothing; `near`: through that server."""
    async with AsyncExitStack() as stack:
        log, performer = await stack.enter_async_context(opened(folder))
        here = remote_log(near, token=None, clock=SystemClock()).backend if near else LocalBackend(log, performers={"documents": performer})
        backend = ForwardingBackend(here, connect=lambda address: remote_log(address, token=None, clock=SystemClock()).backend)
        stack.push_async_callback(backend.aclose)
        yield Documents(backend)
