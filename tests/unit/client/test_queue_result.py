"""Results of rows through the door, over a directory and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.queue_ground import queue_backend
from tests.until import until

import headwater
from headwater.client.queue import OneQueue, Queues
from headwater.client.queue_result import NO_RESULT
from headwater.client.queue_tasks import Tasks
from headwater.core.errors import BadInput, Conflict, NotFound, StaleClaim, Timeout, TooLarge, UnknownQueue
from headwater.queue.handling import GiveUp
from headwater.queue.settings import QueueSettings
from headwater.testing.clock import ManualClock
from headwater.testing.queue_program import queue_for_tests

pytestmark = pytest.mark.anyio
START = 1_800_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START / 1000)


@pytest.fixture(params=["directory", "http"])
async def queues(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Queues]:
    async with queue_backend(tmp_path / "data", request.param, clock) as backend:
        yield Queues(backend)


@pytest.fixture
async def pages(queues: Queues) -> OneQueue:
    return await queues("pages", create=QueueSettings(lease="60s", max_timeouts=1))


@pytest.fixture
def unit(request: pytest.FixtureRequest) -> int:
    """Bytes of a result that one call just takes: the log's records are the limit, or the bodies of this server."""
    return 9_000 if request.node.callspec.params["queues"] == "http" else 1_000_000


async def waited(pages: OneQueue, count: int = 1) -> None:
    async def waits() -> bool:
        return (await pages.statistics()).waiting_results == count

    await until(waits)


@pytest.mark.parametrize("result", [None, 0, "text", {"pages": [1, 2.5, None]}, b"\x00\xff", "", [], Decimal("1.20")], ids=repr)
async def test_a_result_comes_back_as_it_was_given(pages: OneQueue, result: Any) -> None:
    put = await pages.put("k")
    [claim] = await pages.claim(wait="0s")
    await claim.done(result)
    assert await put.result(timeout="0s") == (float(result) if isinstance(result, Decimal) else result)
    assert await pages.result(put.id) == await put.result()
    with pytest.raises(StaleClaim):
        await claim.done(result)


async def test_a_claim_brings_results_with_it(pages: OneQueue) -> None:
    puts = await pages.put_many([("a",), ("b",), ("c",), ("d",)])
    a, b, c = await pages.claim(3, wait="0s")
    [d] = await pages.claim(wait="0s", done=[(a, {"n": 1}), (b.token, None), c, ("stale", 5)])
    assert (d.key, await puts[0].result(), await puts[1].result()) == ("d", {"n": 1}, None)
    with pytest.raises(NotFound):
        await puts[2].result()
    with pytest.raises(BadInput):
        await pages.claim(wait="0s", done=[(d, {1})])
    await d.done()


async def test_who_waits_gets_it_and_a_timeout_is_told(pages: OneQueue, clock: ManualClock) -> None:
    put = await pages.put("k")
    with pytest.raises(Timeout, match="not done after 0s"):
        await put.result(timeout="0s")
    waiting = [asyncio.create_task(put.result(timeout="50s")) for _ in range(3)]
    await waited(pages, 3)
    waiting[0].cancel()
    await waited(pages, 2)
    for _ in range(2):  # each call waits 20 s
        await clock.run(20)
        await waited(pages, 2)
    late = asyncio.create_task(put.result())
    await waited(pages, 3)
    await clock.run(10)
    for wait in waiting[1:]:
        with pytest.raises(Timeout, match="50s"):
            await wait
    [claim] = await pages.claim(wait="0s")
    assert await pages.done(claim.token, result={"n": 1}) == []
    assert await late == {"n": 1}
    await waited(pages, 0)


async def test_rows_without_a_result_are_told(pages: OneQueue, clock: ManualClock) -> None:
    puts = await pages.put_many([{"key": "none", "priority": 1}, {"key": "dead", "priority": 2}, ("gone",)])
    waits = [asyncio.create_task(put.result()) for put in puts]
    await waited(pages, 3)
    none, dead = await pages.claim(2, wait="0s")
    await none.done()
    with pytest.raises(NotFound, match="left no result"):
        await waits[0]
    await dead.fail("no such page", give_up=True)
    with pytest.raises(Conflict, match="no such page"):
        await waits[1]
    await pages.cancel("gone")
    with pytest.raises(NotFound, match="cancelled"):
        await waits[2]
    for id in (0, 10**15):
        with pytest.raises(NotFound):
            await pages.result(id)
    for bad in (-1, "5", None, 2.0, True):
        with pytest.raises(BadInput):
            await pages.result(bad)  # type: ignore[arg-type]
    for timeout in (5, "5", "x", -1, "-5s"):
        with pytest.raises(BadInput):
            await puts[0].result(timeout=timeout)  # type: ignore[arg-type]


async def test_a_queue_that_is_deleted_ends_the_waits(pages: OneQueue, queues: Queues) -> None:
    put = await pages.put("k")
    waiting = asyncio.create_task(put.result())
    await waited(pages)
    await queues.delete("pages")
    with pytest.raises(UnknownQueue):
        await waiting


loop: list[Any] = []
loop.append(loop)
deep: Any = 1
for _ in range(5000):
    deep = [deep]


@pytest.mark.parametrize(
    "result",
    [float("nan"), [1, {"x": float("inf")}], {1, 2}, {"x": frozenset()}, object(), {"$binary": "AA=="}, {"x": {(1, 2): 3}}, loop, deep],
    ids=["nan", "inf", "set", "frozenset", "object", "binary", "tuple key", "loop", "deep"],
)
async def test_what_is_no_json_is_refused_and_the_row_stays(pages: OneQueue, result: Any) -> None:
    await pages.put("k")
    [claim] = await pages.claim(wait="0s")
    with pytest.raises(BadInput):
        await claim.done(result)
    with pytest.raises(BadInput):
        await pages.done(claim.token, result=result)
    await claim.done()


async def test_a_result_that_is_too_large_is_refused_and_the_row_stays(queues: Queues, unit: int) -> None:
    pages = await queues("small", create=QueueSettings(max_record="1MiB"))
    put = await pages.put("k")
    [claim] = await pages.claim(wait="0s")
    with pytest.raises(TooLarge):
        await claim.done("x" * (1 << 20))
    await claim.done("x" * unit)
    assert len(await put.result()) == unit


async def test_what_a_function_returns_is_the_result(pages: OneQueue, clock: ManualClock) -> None:
    puts = {key: await pages.put(key) for key in ("json", "bytes", "none", "set", "nan")}

    def handle(row: Any) -> Any:
        return {"json": {"n": 1}, "bytes": b"\xff", "none": None, "set": {1}, "nan": float("nan")}[row.key]

    async with pages.worker(handle, drain=True, clock=clock) as worker:
        report = await worker.run()
    assert (report.done, report.given_up) == (3, 2)
    assert (await puts["json"].result(), await puts["bytes"].result()) == ({"n": 1}, b"\xff")
    with pytest.raises(NotFound):
        await puts["none"].result()
    for key, why in {"set": "a set", "nan": "NaN"}.items():
        with pytest.raises(Conflict, match=f"cannot be kept.*{why}"):
            await puts[key].result()


async def test_a_worker_brings_back_large_results_one_by_one_and_gives_up_what_no_call_takes(
    queues: Queues, clock: ManualClock, unit: int
) -> None:
    pages = await queues("small", create=QueueSettings(max_record="1MiB"))
    puts = [await pages.put(f"{number}", number) for number in range(12)]

    async def handle(row: Any) -> str:
        return "x" * (2 * unit if row.data == 7 else unit if row.data % 2 else unit // 5)

    async with pages.worker(handle, concurrency=12, drain=True, clock=clock) as worker:
        report = await worker.run()
    assert (report.done, report.given_up) == (11, 1)
    for number, put in enumerate(puts):
        if number == 7:
            with pytest.raises(Conflict, match="too large"):
                await put.result()
        else:
            assert len(await put.result()) == (unit if number % 2 else unit // 5)


async def test_a_put_of_a_done_key_is_ignored_and_has_the_result_of_the_row(pages: OneQueue) -> None:
    first = await pages.put("k", unique_for="10m")
    [claim] = await pages.claim(wait="0s")
    await claim.done({"n": 1})
    again = await pages.put("k", unique_for="10m")
    assert (again.outcome, again.id, again.process_date) == ("ignored", first.id, 0)
    assert await again.result() == {"n": 1}
    [many] = await pages.put_many([{"key": "k", "unique_for": "10m"}])
    assert many.outcome == "ignored"
    assert (await pages.put("k")).outcome == "inserted"
    for bad in ("10", 10, "-1s", "x", "367d"):
        with pytest.raises(BadInput):
            await pages.put("k", unique_for=bad)  # type: ignore[arg-type]


async def test_tasks_have_results_and_tests_drain_them() -> None:
    tasks = Tasks()

    @tasks.task(key=lambda path: f"page:{path}")
    async def rebuild(path: str) -> dict[str, int]:
        if path == "/none":
            raise GiveUp("no such page")
        return {"bytes": len(path)}

    @tasks.task()
    def plain(number: int) -> int:
        return number * 2

    async with queue_for_tests("pages") as test:
        tasks.bind(test.queue)
        page, double, none = await rebuild.put("/about"), await plain.put(21), await rebuild.put("/none")
        await test.drain(tasks)
        assert await page.result() == {"bytes": 6}
        assert await double.result() == 42
        with pytest.raises(Conflict, match="no such page"):
            await none.result()
        await test.advance("61m")
        with pytest.raises(NotFound, match="forgotten"):
            await page.result()


def test_the_blocking_door_has_results(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path, create=True) as hw:
        pages = hw.queue("pages", create=True).open()
        put = pages.put("k", {"n": 1})
        [other] = pages.put_many([("other",)])
        assert (put.outcome, other.outcome, put.raised, put.replayed) == ("inserted", "inserted", False, False)
        for claim in pages.claim(2, wait="0s"):
            claim.done({"key": claim.key})
        assert put.result(timeout="1s") == {"key": "k"}
        assert pages.result(other.id) == {"key": "other"}


def test_nothing_is_told_from_null() -> None:
    assert repr(NO_RESULT) == "NO_RESULT"
