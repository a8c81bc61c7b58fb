"""A journal performer behind a directory's door or behind HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.client.backend import Backend
from headwater.client.forwarding import ForwardingBackend
from headwater.client.journal_performer import JournalPerformer
from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.remote import remote_log
from headwater.core.clock import Clock, SystemClock
from headwater.core.settings import Settings
from headwater.journal.range_fold import fold_range
from headwater.journal.sqlite import SqliteJournalStore
from headwater.testing.app import app_over
from headwater.testing.scripted import served


@asynccontextmanager
async def journal_backend(data: Path, kind: str, clock: Clock, settings: Settings | None = None) -> AsyncIterator[tuple[Backend, LocalLog]]:
    """A backend over a directory, or over HTTP (`kind`), and its log."""
    log = local_log(settings or Settings(), data, clock)
    await log.open()
    performers = {"journal": JournalPerformer(log=log, clock=clock, settings=settings)}
    try:
        if kind == "directory":
            yield LocalBackend(log, clock=clock, performers=performers), log
            return
        async with served(app_over(log, clock=clock, performers=performers)) as url:
            remote = remote_log(url, token=None, clock=SystemClock())
            yield ForwardingBackend(remote.backend, connect=lambda address: remote.backend), log
            await remote.aclose()
    finally:
        await performers["journal"].aclose()
        await log.aclose()


async def copy_all(log: LocalLog, data: Path, topic: str) -> None:
    """Copy everything of a topic into the store."""
    described = await log.topic(topic)
    bounds = await log.all_bounds(described)
    with SqliteJournalStore(data / "store" / "journal") as store:
        for number, bound in enumerate(bounds):
            copy = store.partition(topic, number, described.generation)
            assert copy is not None
            start = copy.pointer().offset + 1
            records = await log.read(topic, number, start, limit=10_000) if bound.end > start else []
            folded = fold_range(topic=topic, partition=number, generation=described.generation, start=start, end=bound.end, records=records)
            copy.apply(folded.change)
