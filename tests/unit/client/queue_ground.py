"""A queue performer with a clock that tests move, behind a directory's door or behind HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.client.backend import Backend
from headwater.client.forwarding import ForwardingBackend
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.queue import Queues
from headwater.client.queue_performer import QueuePerformer
from headwater.client.remote import remote_log
from headwater.client.wal_performer import WalPerformer
from headwater.core.clock import Clock, SystemClock
from headwater.core.settings import Settings
from headwater.testing.app import app_over
from headwater.testing.scripted import served


@asynccontextmanager
async def queue_backend(data: Path, kind: str, clock: Clock) -> AsyncIterator[Backend]:
    """A backend over a directory, or over HTTP (`kind`)."""
    log = local_log(Settings(), data, clock)
    await log.open()
    wal = WalPerformer(log=log, clock=clock)
    performers = {"wal": wal, "queue": QueuePerformer(log=log, wal=wal, clock=clock)}
    try:
        if kind == "directory":
            yield LocalBackend(log, clock=clock, performers=performers)
            return
        async with served(app_over(log, clock=clock, performers=performers)) as url:
            remote = remote_log(url, token=None, clock=SystemClock())
            yield ForwardingBackend(remote.backend, connect=lambda address: remote.backend)
            await remote.aclose()
    finally:
        await performers["queue"].aclose()
        await wal.aclose()
        await log.aclose()


@asynccontextmanager
async def queues_over(data: Path, kind: str, clock: Clock) -> AsyncIterator[Queues]:
    async with queue_backend(data, kind, clock) as backend:
        yield Queues(backend)
