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
from tests.until import until

from headwater.client.dead_calls import call_with_deaths
from headwater.client.queue import OneQueue, Queues
from headwater.client.queue_running import WorkerReport
from headwater.core.errors import BadInput, Fenced, HeadwaterError, NotOwner, Unavailable, Unreachable
from headwater.queue.handling import GiveUp, Retry
from headwater.queue.requests import FailedRow
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
        yield await Queues(backend)("pages", create=QueueSettings(lease="60s"))


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
    worker.stop(grace="0ms")  # it may have claimed the row again, and this one never ends
    assert (await running).lost == 1


@pytest.mark.parametrize("error", [Unreachable("away"), Fenced("taken over"), NotOwner("owned")], ids=["away", "fenced", "owned"])
async def test_a_server_that_is_away_is_asked_again_and_nothing_is_lost(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, error: HeadwaterError
) -> None:
    await pages.put_many([("a", 1), ("b", 1)])
    exchange, asked = pages.exchange, 0

    async def away(n: int, **told: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked in (1, 2, 4):
            raise error
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


@pytest.mark.parametrize("error", [Unreachable("away"), Fenced("taken over"), NotOwner("owned")], ids=["away", "fenced", "owned"])
async def test_schedules_are_put_again_where_the_queue_is_away(pages: OneQueue, clock: ManualClock, error: HeadwaterError) -> None:
    class Scheduled:
        asked = 0

        async def put_schedules(self, queue: OneQueue) -> None:
            self.asked += 1
            if self.asked < 3:
                raise error
            await queue.put("sitemap", every="1h")

        async def __call__(self, row: Any) -> None: ...

    scheduled = Scheduled()
    running = asyncio.create_task(pages.worker(scheduled, drain=True, clock=clock).run())
    while not running.done():
        clock.advance(0.001)
        await asyncio.sleep(0)
    assert (await running, scheduled.asked) == (WorkerReport(done=1), 3)


@pytest.mark.parametrize(("away_for", "report"), [(0, WorkerReport(done=1, given_up=1)), (61, WorkerReport(unknown=2))])
async def test_rows_whose_end_has_arrived_although_its_answer_was_lost_are_not_called_lost(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, away_for: int, report: WorkerReport
) -> None:
    await pages.put_many([("a", 1), ("b", 1)])
    exchange, lost = pages.exchange, False

    async def away(n: int, **told: Any) -> Any:
        nonlocal lost
        answer = await exchange(n, **told)
        if told.get("done") and not lost:
            lost = True
            clock.advance(away_for)
            raise Unreachable("The answer was lost.")
        return answer

    monkeypatch.setattr(pages, "exchange", away)

    async def handle(row: Any) -> None:
        if row.key == "b":
            raise GiveUp("no such page")

    running = asyncio.create_task(pages.worker(handle, drain=True, clock=clock).run())
    while not running.done():
        clock.advance(0.001)
        await asyncio.sleep(0)
    assert await running == report
    assert (await pages.count()).processing == 0


async def test_a_function_is_called_with_each_row_that_dies(pages: OneQueue, clock: ManualClock) -> None:
    dead: list[tuple[Any, str]] = []
    with pytest.raises(BadInput, match="on_dead"):
        pages.worker(print, on_dead=7)  # type: ignore[arg-type]

    async def handle(row: Any) -> None:
        raise GiveUp("no such page")

    async def died(row: Any) -> None:
        dead.append((row.key, row.error))
        if row.key == "a":
            raise ValueError("a broken function ends nothing")

    def died_in_thread(row: Any) -> None:
        dead.append((row.key, row.reason))

    for function, told in ((died, "no such page"), (died_in_thread, "given-up")):
        dead.clear()
        worker = pages.worker(handle, on_dead=function, clock=clock)
        running = asyncio.create_task(worker.run())
        while not dead:  # until it listens
            await pages.put("probe", 1)
            await asyncio.sleep(0.001)
        await pages.put_many([("a", 1), ("b", 1)])
        await until(lambda: dead[-1][0] == "b")
        worker.stop()
        assert (await running).given_up >= 3
        assert [one for one in dead if one[0] != "probe"] == [("a", told), ("b", told)]
        await pages.dead_drop_all()


async def test_rows_whose_deaths_were_missed_are_told_from_the_dead_list(pages: OneQueue, clock: ManualClock) -> None:
    told, first, go_on = list[str](), asyncio.Event(), asyncio.Event()

    async def give_up(*keys: str) -> None:
        await pages.put_many([(key, 1) for key in keys])
        claims = await pages.claim(len(keys))
        await pages.exchange(0, fail=[FailedRow(token=claim.token, give_up=True) for claim in claims])

    async def died(row: Any) -> None:
        told.append(row.key)
        first.set()
        await go_on.wait()

    await give_up("before")
    listening = asyncio.create_task(call_with_deaths(pages, died, clock))
    try:
        while not first.is_set():  # until it listens
            clock.advance(1)
            await give_up("probe")
            await asyncio.sleep(0.001)
        missed = [f"k{number}" for number in range(1500)]
        for at in range(0, 1500, 100):
            await give_up(*missed[at : at + 100])
        go_on.set()
        await until(lambda: set(missed) <= set(told))
        assert "before" not in told
    finally:
        listening.cancel()


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


@pytest.mark.parametrize("answers", ["refuses", "hangs"])
async def test_a_stopped_worker_ends_although_nobody_takes_what_is_finished(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    await pages.put("k", 1)
    exchange = pages.exchange

    async def away(n: int, **told: Any) -> Any:
        if told.get("done"):
            if answers == "hangs":
                await asyncio.Event().wait()
            raise Unreachable("away")
        return await exchange(n, **told)

    monkeypatch.setattr(pages, "exchange", away)
    ran: list[str] = []

    async def handle(row: Any) -> None:
        ran.append(row.key)

    worker = pages.worker(handle, concurrency=1, clock=clock, grace="10s")
    running = asyncio.create_task(worker.run())
    await until(lambda: ran)
    worker.stop()
    for _ in range(200):
        clock.advance(0.1)
        await asyncio.sleep(0)
    assert running.done()
    with pytest.raises(Unavailable, match="what became of 1 row"):
        await running
    assert (await pages.get("k")).status == "P", "it runs again when its lease has ended"


async def test_a_row_is_cancelled_when_its_lease_ends_while_a_heartbeat_is_under_way(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pages.put("k", 1)
    exchange, cancelled, started = pages.exchange, list[float](), asyncio.Event()

    async def hangs(n: int, **told: Any) -> Any:
        if told.get("extend"):
            await asyncio.Event().wait()
        return await exchange(n, **told)

    monkeypatch.setattr(pages, "exchange", hangs)

    async def handle(row: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(clock.monotonic())

    worker = pages.worker(handle, concurrency=1, clock=clock)
    running = asyncio.create_task(worker.run())
    await started.wait()
    await clock.run(59)
    assert not cancelled
    await clock.run(2)
    assert len(cancelled) == 1
    worker.stop(grace="0ms")  # it may have claimed the row again, and this one never ends
    assert (await running).lost == 1


async def test_rows_whose_claim_took_long_run_after_their_leases_are_extended(
    pages: OneQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was stopped, or whose network was, must not begin a row that another one may have by now."""
    await pages.put_many([("k0", 1), ("k1", 1)])
    exchange, ran, held = pages.exchange, list[str](), asyncio.Event()

    async def late(n: int, **told: Any) -> Any:
        answer = await exchange(n, **told)
        if n and not held.is_set():
            held.set()
            clock.advance(50)  # of a lease of 60
            [claim, _] = answer.claims
            await exchange(0, release=[claim.token])
            await pages.cancel(claim.key)
        return answer

    monkeypatch.setattr(pages, "exchange", late)

    async def handle(row: Any) -> None:
        ran.append(row.key)

    worker = pages.worker(handle, concurrency=2, clock=clock)
    running = asyncio.create_task(worker.run())
    await until(lambda: ran)
    worker.stop()
    assert await running == WorkerReport(done=1, lost=1)
    assert ran == ["k1"]
