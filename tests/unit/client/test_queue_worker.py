"""The worker of a queue, over a directory and over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.client.queue_ground import queue_backend

from headwater.client.queue import OneQueue, Queues
from headwater.client.queue_running import WorkerReport
from headwater.core.errors import BadInput, Unreachable
from headwater.queue.handling import GiveUp, Retry
from headwater.queue.settings import QueueSettings
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
START = 1_800_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START / 1000)


@pytest.fixture(params=["directory", "http"])
async def pages(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[OneQueue]:
    async with queue_backend(tmp_path / "data", request.param, clock) as backend:
        yield await Queues(backend)("pages", create=QueueSettings(lease="60s"))  # type: ignore[arg-type]


async def until(holds: Any) -> None:
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never holds")


async def test_every_row_runs_once_and_at_most_so_many_at_once(pages: OneQueue, clock: ManualClock) -> None:
    await pages.put_many([(f"k{number}", number) for number in range(200)])
    ran: Counter[int] = Counter()
    now = most = 0

    async def handle(row: Any) -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0)
        ran[row.data] += 1
        now -= 1

    async with pages.worker(handle, concurrency=16, drain=True, clock=clock) as worker:
        report = await worker.run()
    assert report == WorkerReport(done=200)
    assert ran == Counter(range(200))
    assert 1 < most <= 16
    assert (await pages.count()).processing == 0


async def test_one_claim_call_is_under_way_and_brings_back_all_that_is_finished(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pages.put_many([(f"k{number}", number) for number in range(100)])
    calls: list[tuple[int, int]] = []
    claiming = 0
    exchange = pages.exchange

    async def counted(n: int, **told: Any) -> Any:
        nonlocal claiming
        claiming += bool(n)
        assert claiming <= 1
        calls.append((n, len(told.get("done", ()))))
        try:
            return await exchange(n, **told)
        finally:
            claiming -= bool(n)

    monkeypatch.setattr(pages, "exchange", counted)

    async def handle(row: Any) -> None:
        await asyncio.sleep(0)

    async with pages.worker(handle, concurrency=10, drain=True, clock=clock) as worker:
        await worker.run()
    assert sum(done for _, done in calls) == 100
    assert len(calls) <= 30, "rows that are finished together travel together"


async def test_failures_are_tried_again_or_given_up(pages: OneQueue, clock: ManualClock) -> None:
    await pages.put_many([(key, 1) for key in ("raises", "retries", "gives up")])

    async def handle(row: Any) -> None:
        if row.key == "raises":
            raise ValueError("broken")
        if row.key == "retries":
            raise Retry("busy", after="30s")
        raise GiveUp("no such page")

    async with pages.worker(handle, drain=True, clock=clock, random=Random(1)) as worker:
        report = await worker.run()
    assert report == WorkerReport(failed=2, given_up=1)
    raises = await pages.get("raises")
    assert (raises.error, raises.failures) == ("ValueError: broken", 1)
    assert 500 <= raises.process_date - START <= 1000
    assert (await pages.get("retries")).process_date == START + 30_000
    assert [row.error for row in await pages.dead()] == ["no such page"]


async def test_a_plain_function_runs_in_threads(pages: OneQueue, clock: ManualClock) -> None:
    await pages.put_many([(f"k{number}", 1) for number in range(4)])
    together = threading.Barrier(4, timeout=60)
    names: set[str] = set()

    def handle(row: Any) -> None:
        together.wait()  # all four run at once
        names.add(threading.current_thread().name)

    async with pages.worker(handle, concurrency=4, drain=True, clock=clock) as worker:
        assert (await worker.run()).done == 4
    assert len(names) == 4
    assert threading.main_thread().name not in names


async def test_a_stopped_worker_lets_rows_end_and_releases_the_late_ones(pages: OneQueue, clock: ManualClock) -> None:
    await pages.put_many([("quick", 1), ("slow", 1), ("waits", 1)])
    started: set[str] = set()
    goes_on = asyncio.Event()

    async def handle(row: Any) -> None:
        started.add(row.key)
        await (goes_on.wait() if row.key == "quick" else asyncio.Event().wait())

    worker = pages.worker(handle, concurrency=2, clock=clock, grace="10s")
    running = asyncio.create_task(worker.run())
    await until(lambda: len(started) == 2)
    worker.stop()
    goes_on.set()
    await until(lambda: not worker._rows.finished and worker._rows.free == 1)
    assert not running.done()
    clock.advance(10)
    assert await running == WorkerReport(done=1, released=1)
    assert {row.key async for row in pages.rows(state="due")} == {"slow", "waits"}


async def test_a_worker_that_waits_for_rows_stops_at_once_and_one_gets_what_comes(pages: OneQueue, clock: ManualClock) -> None:
    ran: list[Any] = []

    async def handle(row: Any) -> None:
        ran.append(row.data)

    worker = pages.worker(handle, clock=clock)
    running = asyncio.create_task(worker.run())
    await pages.put("k", 7)
    await until(lambda: ran == [7])
    worker.stop()
    assert (await running).done == 1
    assert (await pages.statistics()).waiting_claims == 0


async def test_heartbeats_keep_the_leases_of_all_rows_in_one_call(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pages.put_many([("a", 1), ("b", 1)])
    goes_on, started = asyncio.Event(), list[str]()
    extends: list[int] = []
    exchange = pages.exchange

    async def counted(n: int, **told: Any) -> Any:
        answer = await exchange(n, **told)
        if told.get("extend"):
            extends.append(len(told["extend"]))
        return answer

    monkeypatch.setattr(pages, "exchange", counted)

    async def handle(row: Any) -> None:
        started.append(row.key)
        await goes_on.wait()

    worker = pages.worker(handle, drain=True, clock=clock)
    running = asyncio.create_task(worker.run())
    await until(lambda: len(started) == 2)
    for beat in range(1, 7):  # two minutes, twice the lease
        clock.advance(20)
        await until(lambda beat=beat: len(extends) == beat)  # type: ignore[misc]
    goes_on.set()
    assert await running == WorkerReport(done=2)
    assert extends == [2] * 6


async def test_a_row_whose_lease_cannot_be_extended_is_cancelled(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pages.put("k", 1)
    ended, started = list[str](), asyncio.Event()
    exchange = pages.exchange

    async def away(n: int, **told: Any) -> Any:
        if told.get("extend"):
            raise Unreachable("away")
        return await exchange(n, **told)

    monkeypatch.setattr(pages, "exchange", away)

    async def handle(row: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(row.key)

    worker = pages.worker(handle, concurrency=1, clock=clock)
    running = asyncio.create_task(worker.run())
    await started.wait()
    while not ended:
        clock.advance(5)
        await asyncio.sleep(0)
    worker.stop()
    assert (await running).lost == 1


async def test_a_server_that_is_away_is_asked_again_and_nothing_is_lost(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pages.put_many([("a", 1), ("b", 1)])
    exchange, asked = pages.exchange, 0

    async def away(n: int, **told: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked in (1, 2, 4):
            raise Unreachable("away")
        return await exchange(n, **told)

    monkeypatch.setattr(pages, "exchange", away)
    ran: list[str] = []

    async def handle(row: Any) -> None:
        ran.append(row.key)

    running = asyncio.create_task(pages.worker(handle, drain=True, clock=clock).run())
    while not running.done():
        clock.advance(0.001)
        await asyncio.sleep(0)
    assert await running == WorkerReport(done=2)
    assert sorted(ran) == ["a", "b"]


async def test_a_paused_queue_ends_a_worker_that_drains(pages: OneQueue, clock: ManualClock) -> None:
    await pages.put("k", 1)
    await pages.pause()

    async def handle(row: Any) -> None:
        raise AssertionError("it must not run")

    assert await pages.worker(handle, drain=True, clock=clock).run() == WorkerReport()


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"lease": "0s"}, {"lease": "60"}, {"grace": 5}], ids=repr)
async def test_what_no_worker_can_be_is_bad_input(pages: OneQueue, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        pages.worker(print, **wrong)
    with pytest.raises(BadInput):
        pages.worker("rebuild")  # type: ignore[arg-type]
