from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.documents.ground import FlakyStores, body_of, documents_in, draft, put

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Unavailable
from headwater.core.timers import Timers
from headwater.documents import recovery as recovering
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.recovery import HotRecovery, RecoveryNotes, StaleRecovery
from headwater.documents.settings import DocumentSettings
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
ONE = DocumentSettings(partitions=1)


def hot(documents: OpenDocuments, owners: LocalOwnership, clock: ManualClock, metrics: DocumentMetrics) -> HotRecovery:
    return HotRecovery(documents, lambda: owners, settings=ONE, clock=clock, timers=Timers(clock), metrics=metrics)


def stale(documents: OpenDocuments, folder: Path, clock: ManualClock, metrics: DocumentMetrics) -> StaleRecovery:
    notes = RecoveryNotes(folder / "recovery")
    return StaleRecovery(documents, notes, settings=ONE, clock=clock, timers=Timers(clock), metrics=metrics)


async def until(condition: object, clock: ManualClock) -> None:
    """Let threads work until something holds."""
    for _ in range(2000):
        if condition():  # type: ignore[operator]
            return
        await clock.run(0)
        await asyncio.to_thread(lambda: None)
    raise AssertionError("It never came.")


async def test_hot_recovery_applies_what_the_store_did_not_take(tmp_path: Path) -> None:
    clock, metrics = ManualClock(), DocumentMetrics()
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, stores=stores, clock=clock, settings=ONE) as documents:
            with LocalOwnership(documents.log, tmp_path / "owners") as owners:
                recovery = hot(documents, owners, clock, metrics)
                recovery.loop.start()
                stores.failing = True
                for number in range(3):
                    await put(documents, "a", number)
                assert documents.applied(0) == 0
                await clock.run(16)
                await until(lambda: metrics.recovery_failures.value, clock)
                stores.failing = False
                await clock.run(16)
                await until(lambda: documents.applied(0) == 3, clock)
                await recovery.loop.stop()
                assert metrics.hot_incomplete.value == 3


async def test_hot_recovery_takes_what_a_dead_owner_left(tmp_path: Path) -> None:
    clock, metrics = ManualClock(), DocumentMetrics()
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, stores=stores, clock=clock, settings=ONE) as first:
            await put(first, "a", 1)
            stores.failing = True
            await put(first, "a", 2)
            async with documents_in(tmp_path, clock=clock, settings=ONE) as second:
                with LocalOwnership(second.log, tmp_path / "owners") as owners:
                    recovery = hot(second, owners, clock, metrics)
                    clock.advance(121)
                    assert await recovery.look(0) == 0  # its owner lives
                    await first.release(0)
                    assert await recovery.look(0) == 1
                    assert second.owned() == [0]
                    assert second.applied(0) == 2
                    assert await recovery.look(0) == 0


async def test_young_changes_are_left_to_their_owner(tmp_path: Path) -> None:
    clock = ManualClock()
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, stores=stores, clock=clock, settings=ONE) as first:
            await put(first, "a", 1)
            stores.failing = True
            await put(first, "a", 2)
            with LocalOwnership(first.log, tmp_path / "owners") as owners:
                recovery = hot(first, owners, clock, DocumentMetrics())
                with pytest.raises(Unavailable):
                    await recovery.look(0)
                await first.release(0)
                stores.failing = False
                clock.advance(119)
                assert await recovery.look(0) == 0
                assert await body_of(first, "a") == 2
                clock.advance(2)
                assert await recovery.look(0) == 1


async def test_a_process_that_was_started_takes_what_nobody_owns(tmp_path: Path) -> None:
    """Otherwise what expires, views and half-built indexes would stand still until somebody writes to their partition."""
    clock = ManualClock()
    async with documents_in(tmp_path, clock=clock) as documents:
        await put(documents, "a", 1)
        number = documents.partition_of("a")
    async with documents_in(tmp_path, clock=clock) as documents:
        with LocalOwnership(documents.log, tmp_path / "owners") as owners:
            recovery = hot(documents, owners, clock, DocumentMetrics())
            assert documents.partitions == 2
            for one in range(2):
                assert await recovery.look(one) == 0
            assert documents.owned() == [number]  # the other one has no records


async def test_stale_recovery_finds_and_repairs_what_is_missing(tmp_path: Path) -> None:
    clock, metrics = ManualClock(), DocumentMetrics()
    async with documents_in(tmp_path, clock=clock, settings=ONE) as documents:
        for number in range(3):
            await put(documents, f"c~/{number}", {"n": number})
        await documents.write(draft("delete", "c~/1"))
        await put(documents, "d", 1)
        await documents.write(draft("delete", "d"))
        await put(documents, "e~/1", {})
        await documents.write(draft("delete", "e~"))
        recovery, store = stale(documents, tmp_path, clock, metrics), documents.reads(0).store
        clock.advance(31 * 60)
        before = store.digest()
        assert await recovery.look(0) == 0
        store.clear()
        store.apply([], documents.end(0))  # as a store that lost its rows, and not its offset
        assert await recovery.look(0) > 0
        assert store.digest() == before
        assert metrics.stale_incomplete.value > 0
        assert await recovery.look(0) == 0


async def test_the_checkpoint_is_where_the_next_look_begins(tmp_path: Path) -> None:
    clock = ManualClock()
    notes = RecoveryNotes(tmp_path / "recovery")
    assert notes.checkpoint(0) is None
    notes.note(0, 7)
    assert RecoveryNotes(tmp_path / "recovery").checkpoint(0) == 7
    (tmp_path / "recovery" / "0.json").write_bytes(b"{")
    assert notes.checkpoint(0) is None
    async with documents_in(tmp_path, clock=clock, settings=ONE) as documents:
        await put(documents, "a", 1)
        recovery, store = stale(documents, tmp_path, clock, DocumentMetrics()), documents.reads(0).store
        clock.advance(3 * 86_400)
        await put(documents, "b", 1)
        store.clear()
        store.apply([], documents.end(0))
        assert await recovery.look(0) == 0  # three days old, and nothing says that it was not compared
        assert notes.checkpoint(0) == clock.now_ms() - 30 * 60_000
        notes.note(0, clock.now_ms() - 4 * 86_400_000)  # this process was down for long
        assert await recovery.look(0) == 1


async def test_changes_are_compared_at_most_five_times_as_fast_as_they_have_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause is at most that between two passes, however long nothing was written."""
    monkeypatch.setattr(recovering, "_PAGE", 2)
    clock, pauses = ManualClock(), list[float]()

    class NotedTimers(Timers):
        async def sleep_until(self, when_ms: int) -> None:
            pauses.append((when_ms - clock.now_ms()) / 1000)
            clock.advance(pauses[-1])

    async with documents_in(tmp_path, clock=clock, settings=ONE) as documents:
        for seconds in (50, 1, 10_000, 1, 0, 1, 1):  # after each change
            await put(documents, "a", seconds)
            clock.advance(seconds)
        clock.advance(31 * 60)
        notes, metrics = RecoveryNotes(tmp_path / "recovery"), DocumentMetrics()
        recovery = StaleRecovery(documents, notes, settings=ONE, clock=clock, timers=NotedTimers(clock), metrics=metrics)
        assert await recovery.look(0) == 0
        assert pauses == [10, 180]  # none between changes of one moment, and none behind the last page
