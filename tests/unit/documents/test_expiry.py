from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.unit.documents.ground import body_of, documents_in, draft, put

from headwater.core.timers import Timers
from headwater.documents.expiry import DocumentExpiry
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.settings import DocumentSettings
from headwater.documents.write import BatchDraft
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def gone(documents: OpenDocuments, clock: ManualClock, path: str) -> bool:
    """Whether a document goes, given threads their time."""
    for _ in range(20_000):
        if await body_of(documents, path) is None:
            return True
        await clock.run(0)
        await asyncio.to_thread(lambda: None)
    return False


async def test_what_has_expired_is_deleted_as_by_a_client(tmp_path: Path) -> None:
    clock, metrics = ManualClock(), DocumentMetrics()
    async with documents_in(tmp_path, clock=clock) as documents:
        expiry = DocumentExpiry(documents, timers=Timers(clock), clock=clock, metrics=metrics)
        expiry.start()
        expiry.start()
        await put(documents, "a", 1, ttl=60_000)
        await put(documents, "b", 1, ttl=30_000)
        await put(documents, "c", 1)
        await documents.write_batch(BatchDraft(uri="d~", drafts=(draft("put", "d~/1", {}, ttl=10_000), draft("put", "d~/2", {}))))
        await clock.run(11)
        assert await gone(documents, clock, "d~/1")
        await clock.run(20)
        assert await gone(documents, clock, "b")
        assert await body_of(documents, "a") == 1
        await put(documents, "a", 2)  # lives on
        await clock.run(3600)
        assert await body_of(documents, "a") == 2
        assert await body_of(documents, "c") == 1
        with documents.view("b") as view:
            assert [place.revision for place in view.changes("b", limit=9)] == [1, 2]
        assert metrics.expired.value == 2
        await expiry.stop()
        await expiry.stop()


async def test_a_new_owner_deletes_what_expired_while_nobody_was_there(tmp_path: Path) -> None:
    clock = ManualClock()
    async with documents_in(tmp_path, clock=clock) as documents:
        await put(documents, "a", 1, ttl=1000)
    clock.advance(60)
    async with documents_in(tmp_path, clock=clock) as documents:
        expiry = DocumentExpiry(documents, timers=Timers(clock), clock=clock, metrics=DocumentMetrics())
        expiry.start()
        assert await body_of(documents, "a") == 1  # nobody owns it
        await documents.activate(documents.partition_of("a"))
        assert await gone(documents, clock, "a")
        await expiry.stop()


async def test_what_a_caller_wrote_who_gave_up_expires_too(tmp_path: Path) -> None:
    clock = ManualClock()
    async with documents_in(tmp_path, clock=clock, settings=DocumentSettings(partitions=1)) as documents:
        expiry = DocumentExpiry(documents, timers=Timers(clock), clock=clock, metrics=DocumentMetrics())
        expiry.start()
        await documents.activate(0)
        partition = documents.opened(0)
        assert partition is not None
        writing = asyncio.ensure_future(put(documents, "a", 1, ttl=1000))
        while not partition.queued and not partition.commits:
            await asyncio.sleep(0)
        writing.cancel()
        await put(documents, "b", 1)  # which is done after it
        assert await body_of(documents, "a") == 1
        await clock.run(2)
        assert await gone(documents, clock, "a")
        await expiry.stop()


async def test_an_alarm_during_a_pass_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass may have looked before the document came: then nobody else would wake for it."""
    clock = ManualClock()
    async with documents_in(tmp_path, clock=clock) as documents:
        expiry = DocumentExpiry(documents, timers=Timers(clock), clock=clock, metrics=DocumentMetrics())
        await put(documents, "a", 1)
        looking, go_on = threading.Event(), threading.Event()
        due = expiry._due

        def slow(number: int) -> object:
            found = due(number)
            looking.set()
            go_on.wait()
            return found

        monkeypatch.setattr(expiry, "_due", slow)
        expiry.start()
        await asyncio.to_thread(looking.wait)
        await put(documents, "a", 2, ttl=1000)
        await clock.run(2)
        go_on.set()
        assert await gone(documents, clock, "a")
        await expiry.stop()
