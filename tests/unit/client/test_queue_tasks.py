"""Tasks, and the queue for tests of programs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.until import until

import headwater
from headwater.client.queue_running import WorkerReport
from headwater.client.queue_tasks import Tasks
from headwater.core.errors import BadInput
from headwater.queue.handling import Backoff
from headwater.queue.settings import QueueSettings
from headwater.testing import blocking_queue_for_tests, queue_for_tests

pytestmark = pytest.mark.anyio


async def test_tasks_are_put_merged_and_run() -> None:
    tasks, built = Tasks(), list[object]()

    @tasks.task(key=lambda path, **more: f"page:{path}", priority=10)
    async def rebuild(path: str, why: str = "") -> None:
        built.append((path, why))

    @tasks.task(retry=Backoff("5s", "5s"))
    def fails(number: int) -> None:
        raise ValueError(f"not {number}")

    with pytest.raises(BadInput, match="bind"):
        rebuild.put("/about")
    with pytest.raises(BadInput, match="two tasks"):
        tasks.task(name="rebuild")(print)
    async with queue_for_tests("pages") as test:
        tasks.bind(test.queue)
        assert (await rebuild.put("/about")).outcome == "inserted"
        assert (await rebuild.put("/about", why="menu")).outcome == "merged"
        later = await rebuild.put_with({"delay": "10s"}, "/later")
        await rebuild.put_with({"after": later, "after_dead": "cancel"}, "/last")
        await fails.put(7)
        row = await test.assert_put("page:/about", {"task": "rebuild", "args": ["/about"], "named": {"why": "menu"}}, priority=10)
        assert row.status == "W"
        with pytest.raises(AssertionError, match="No row 'page:/none'"):
            await test.assert_put("page:/none")
        with pytest.raises(AssertionError, match="priority"):
            await test.assert_put("page:/about", priority=11)
        await test.queue.put("stray", {"n": 1})
        assert await test.drain(tasks) == WorkerReport(done=1, failed=1, given_up=1)
        assert built == [("/about", "menu")]
        failed = await test.assert_put("fails(7)", error="ValueError: not 7")
        assert 2500 <= failed.process_date - test.clock.now_ms() <= 5000
        await test.advance("10s")
        assert (await test.drain(tasks)).done == 2
        assert built[1:] == [("/later", ""), ("/last", "")]
    await rebuild("/here")
    assert built[3:] == [("/here", "")]


async def test_tasks_with_a_schedule_run_by_themselves() -> None:
    tasks, built = Tasks(), list[str]()

    @tasks.task(every="1h", priority=7)
    async def sitemap(why: str = "time") -> None:
        built.append(why)

    @tasks.task(cron="0 6 * * *", zone="Europe/Berlin", key="nightly")
    def clean() -> None:
        built.append("clean")

    with pytest.raises(BadInput, match="called without arguments"):
        tasks.task(every="1h")(lambda path: None)
    for wrong in ({"every": "10"}, {"cron": "soon"}, {"every": "1h", "cron": "0 6 * * *"}, {"zone": "UTC"}):
        with pytest.raises(BadInput):
            tasks.task(**wrong)
    async with queue_for_tests("pages") as test:
        assert (await test.drain(tasks)).done == 1
        row = await test.assert_put("sitemap()", {"task": "sitemap", "args": []}, priority=7, schedule="every 1h")
        await test.assert_put("nightly", schedule="0 6 * * * (Europe/Berlin)")
        await test.advance("10m")
        assert (await test.drain(tasks)).done == 0, "a worker that begins again does not run it again"
        assert (await test.assert_put("sitemap()")).process_date == row.process_date
        await test.advance("51m")
        await test.drain(tasks)
        assert built == ["time", "time"]
        await test.advance("24h")
        await test.drain(tasks)
        assert sorted(built) == ["clean", "time", "time", "time"]


async def test_leases_end_when_the_clock_of_a_test_moves() -> None:
    async with queue_for_tests("pages", QueueSettings(lease="60s")) as test:
        await test.queue.put("k", 1)
        await test.queue.claim(wait="0s")
        await test.advance("61s")
        assert (await test.assert_put("k", 1, timeout_counter=1)).status == "W"


async def test_a_plain_task_puts_rows_from_its_thread() -> None:
    tasks, built = Tasks(), list[str]()

    @tasks.task()
    def first(path: str) -> None:
        assert second.put(path).outcome == "inserted"

    @tasks.task()
    async def second(path: str) -> None:
        assert (await third.put(path)).outcome == "inserted"

    @tasks.task()
    def third(path: str) -> None:
        built.append(path)

    async with queue_for_tests("pages") as test:
        tasks.bind(test.queue)
        await first.put("/about")
        assert (await test.drain(tasks)).done == 3
        assert built == ["/about"]


async def test_as_many_plain_tasks_run_at_once_as_the_worker_says() -> None:
    tasks, together = Tasks(), threading.Barrier(40, timeout=60)

    @tasks.task()
    def waits(number: int) -> None:
        together.wait()

    async with queue_for_tests("pages") as test:
        tasks.bind(test.queue)
        for number in range(40):
            await waits.put(number)
        assert await test.drain(tasks, concurrency=40) == WorkerReport(done=40)


async def test_a_plain_task_that_runs_on_when_the_grace_is_over_keeps_its_row() -> None:
    tasks, began, ends = Tasks(), threading.Event(), threading.Event()

    @tasks.task()
    def slow() -> None:
        began.set()
        ends.wait(60)

    @tasks.task()
    async def waits() -> None:
        await asyncio.Event().wait()

    async with queue_for_tests("pages") as test:
        tasks.bind(test.queue)
        await slow.put()
        await waits.put()
        worker = test.queue.worker(tasks, concurrency=2, clock=test.clock, grace="10s")
        running = asyncio.create_task(worker.run())
        await until(began.is_set)
        worker.stop()
        await test.advance("10s")
        assert await running == WorkerReport(released=1, abandoned=1)
        ends.set()
        assert {key: row.status for key, row in (await test.rows()).items()} == {"slow()": "P", "waits()": "W"}


def test_tasks_open_their_queue_at_the_first_put(tmp_path: Path) -> None:
    opened = list[object]()
    with headwater.open_blocking(tmp_path, create=True) as hw:

        def pages() -> object:
            opened.append(hw.queue("pages", create=True).open())
            return opened[-1]

        tasks = Tasks(opens=pages)

        @tasks.task()
        def rebuild(path: str) -> None:
            """Build a page."""

        assert opened == []
        with ThreadPoolExecutor(4) as threads:
            puts = list(threads.map(rebuild.put, map(str, range(8))))
        assert [put.outcome for put in puts] == ["inserted"] * 8
        assert len(opened) == 1
        bound = Tasks(opens=pages)
        bound.bind(opened[0])
        assert bound.queue is opened[0]
        assert len(opened) == 1, "a worker has bound its own"


def test_tasks_of_the_blocking_door(tmp_path: Path) -> None:
    tasks = Tasks()

    @tasks.task()
    def rebuild(path: str) -> None:
        """Build a page."""

    with headwater.open_blocking(tmp_path, create=True) as hw:
        tasks.bind(hw.queue("pages", create=True).open())
        assert rebuild.put("/about").outcome == "inserted"


def test_a_queue_for_tests_of_plain_code() -> None:
    tasks, built = Tasks(), list[str]()

    @tasks.task(key=lambda path: f"page:{path}")
    def rebuild(path: str) -> None:
        built.append(path)
        if path == "/menu":
            rebuild.put("/about")  # from the thread that runs it

    with blocking_queue_for_tests("pages", QueueSettings(lease="60s")) as test:
        tasks.bind(test.queue)
        rebuild.put("/menu")
        rebuild.put_with({"delay": "10s"}, "/later")
        test.assert_put("page:/menu", {"task": "rebuild", "args": ["/menu"]}, priority=100)
        test.assert_not_put("page:/about")
        with pytest.raises(AssertionError, match="No row 'page:/none'"):
            test.assert_put("page:/none")
        with pytest.raises(AssertionError, match="'page:/later' was put"):
            test.assert_not_put("page:/later")
        assert test.drain(tasks).done == 2
        test.advance("10s")
        assert test.drain(tasks).done == 1
        assert built == ["/menu", "/about", "/later"]
        test.queue.put("held")
        test.queue.claim(wait="0s")
        test.advance("61s")
        test.assert_put("held", timeout_counter=1)
